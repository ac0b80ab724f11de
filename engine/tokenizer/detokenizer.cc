#include "engine/tokenizer/detokenizer.h"

#include "engine/tokenizer/token_text.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string ToValidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = Utf8RunLength(bytes, /*valid=*/true);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text.append(kReplacement);
    bytes.remove_prefix(NextUtf8(bytes).length);
  }
  return text;
}

size_t CompleteUtf8Prefix(std::string_view bytes) {
  // Only the last three bytes can be the start of an unfinished character.
  size_t start = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (; start < bytes.size(); ++start) {
    const Utf8Part part = NextUtf8(bytes.substr(start));
    if (part.status == Utf8Status::kIncomplete) return start;
  }
  return bytes.size();
}

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer* tokenizer,
                                               bool skip_special_tokens,
                                               bool continues_text)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      strip_space_(tokenizer->strips_leading_space() && !continues_text) {}

std::string IncrementalDetokenizer::Add(int32_t token) {
  pending_.append(
      TokenText(*tokenizer_, token, skip_special_tokens_, &strip_space_));
  const size_t complete = CompleteUtf8Prefix(pending_);
  std::string text =
      ToValidUtf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  std::string text = ToValidUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace headrace
