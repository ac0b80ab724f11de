// What is done to text before it is cut into words: Unicode normal forms,
// replacements, SentencePiece's space marks.
#ifndef HEADRACE_ENGINE_TOKENIZER_NORMALIZER_H_
#define HEADRACE_ENGINE_TOKENIZER_NORMALIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace headrace {

enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Normalises the valid runs of `text`; ill-formed bytes stay. Linear in the
// text, whatever marks are piled up in it.
// Source: Unicode 15, 3.11, D108 to D117.
std::string NormalizeUnicode(std::string_view text, UnicodeForm form);

// One step. Immutable, thread-safe.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // `at_start`: nothing of the same section stands before `text`, which is
  // not empty.
  virtual std::string Apply(std::string_view text, bool at_start) const = 0;
};

std::unique_ptr<NormalizerStep> MakeUnicodeStep(UnicodeForm form);
// Puts `prefix` before a section.
std::unique_ptr<NormalizerStep> MakePrependStep(std::string prefix);
// `pattern` must not be empty.
std::unique_ptr<NormalizerStep> MakeReplaceStep(std::string pattern,
                                                std::string content);
std::unique_ptr<NormalizerStep> MakeReplaceStep(Regex pattern,
                                                std::string content);

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<std::unique_ptr<NormalizerStep>> steps);

  bool is_identity() const { return steps_.empty(); }
  std::string Apply(std::string_view text, bool at_start) const;

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_NORMALIZER_H_
