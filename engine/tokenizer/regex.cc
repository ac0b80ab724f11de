#include "engine/tokenizer/regex.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/regex_dialect.h"
#include "engine/tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace headrace {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

PCRE2_SPTR ToSubject(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, FreeCode> code;

  // The first match at or after `start` in valid UTF-8.
  std::optional<TextRange> Find(std::string_view subject, size_t start,
                                pcre2_match_data* data) const {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code.get(), ToSubject(subject), subject.size(), start,
                         options, data, /*mcontext=*/nullptr);
    };
    int count = match(PCRE2_NO_UTF_CHECK);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = match(PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    }
    if (count < 0) return std::nullopt;
    const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(data);
    return TextRange{found[0], found[1]};
  }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, ToPcre2Pattern(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  // ^ and $ match at every line, as in Oniguruma.
  pcre2_code* compiled =
      pcre2_compile(ToSubject(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                    /*ccontext=*/nullptr);
  if (compiled == nullptr) {
    PCRE2_UCHAR words[128];
    pcre2_get_error_message(error, words, sizeof(words));
    return absl::InvalidArgumentError(absl::StrFormat(
        "regular expression \"%s\": %s (at offset %d of \"%s\")", pattern,
        reinterpret_cast<const char*>(words), offset, translated));
  }
  auto code = std::make_unique<Code>();
  code->code.reset(compiled);
  // Without a compiler for this machine, matching is interpreted.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return Regex(std::move(code));
}

void Regex::FindAll(std::string_view text,
                    std::vector<TextRange>* matches) const {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t valid = Utf8RunLength(text.substr(begin), /*valid=*/true);
    if (valid > 0) FindInRun(text, {begin, begin + valid}, matches);
    begin += valid;
    begin += Utf8RunLength(text.substr(begin), /*valid=*/false);
  }
}

void Regex::FindInRun(std::string_view text, TextRange run,
                      std::vector<TextRange>* matches) const {
  // One block for each thread: allocating it costs more than a short match.
  thread_local const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create(1, /*gcontext=*/nullptr));
  const std::string_view subject = text.substr(run.begin, run.end - run.begin);
  size_t start = 0;
  std::optional<size_t> last_end;
  while (start <= subject.size()) {
    const std::optional<TextRange> found =
        code_->Find(subject, start, data.get());
    if (!found) return;
    // An empty match right after the last one is none, as in Oniguruma's
    // iteration.
    if (found->end == found->begin && found->end == last_end) {
      if (start == subject.size()) return;
      start += NextUtf8(subject.substr(start)).length;
      continue;
    }
    matches->push_back({run.begin + found->begin, run.begin + found->end});
    start = found->end;
    last_end = found->end;
  }
}

}  // namespace headrace
