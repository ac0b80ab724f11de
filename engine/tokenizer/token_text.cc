#include "engine/tokenizer/token_text.h"

namespace headrace {

std::string_view TokenText(const Tokenizer& tokenizer, int32_t token,
                           bool skip_special_tokens, bool* strip_space) {
  const TokenKind kind = tokenizer.KindOf(token);
  const bool special =
      kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  if (special && skip_special_tokens) return {};
  std::string_view bytes = tokenizer.TokenBytes(token);
  if (*strip_space && !bytes.empty()) {
    *strip_space = false;
    if (bytes.front() == ' ') bytes.remove_prefix(1);
  }
  return bytes;
}

}  // namespace headrace
