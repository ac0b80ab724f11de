// A compiled regular expression over bytes that are mostly UTF-8. Every
// search is bounded: hostile text costs time in proportion to its length, or
// the search gives up and says so.
#ifndef HEADRACE_ENGINE_TOKENIZER_REGEX_H_
#define HEADRACE_ENGINE_TOKENIZER_REGEX_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

struct TextRange {
  size_t begin;
  size_t end;
};

// Immutable, thread-safe.
class Regex {
 public:
  // `pattern` as tokenizer.json has it (see regex_dialect.h).
  //
  // Errors: UNIMPLEMENTED for constructs that are not supported;
  // INVALID_ARGUMENT with the compiler's own words and the offset.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Appends all matches in `text`, in order, not overlapping; empty ones only
  // where the last match did not end. Ill-formed UTF-8
  // is matched by nothing and looks like the end of the text to what stands
  // before it. When a search passes PCRE2's limits, the rest of that run of
  // valid text counts as not matched.
  void FindAll(std::string_view text, std::vector<TextRange>* matches) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  void FindInRun(std::string_view text, TextRange run,
                 std::vector<TextRange>* matches) const;

  std::unique_ptr<Code> code_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_REGEX_H_
