#include "engine/tokenizer/vocabulary.h"

#include <utility>

namespace headrace {
namespace {

int Precedence(TokenKind kind) {
  switch (kind) {
    case TokenKind::kControl:
    case TokenKind::kUserDefined:
      return 0;
    case TokenKind::kUnknown:
      return 1;
    case TokenKind::kNormal:
      return 2;
    case TokenKind::kByte:
      return 3;
    case TokenKind::kUnused:
      return 4;
  }
  return 4;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
  ids_.reserve(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].bytes.empty()) continue;
    const auto id = static_cast<int32_t>(i);
    const auto [entry, is_new] = ids_.emplace(pieces_[i].bytes, id);
    if (!is_new &&
        Precedence(pieces_[i].kind) < Precedence(pieces_[entry->second].kind)) {
      entry->second = id;
    }
  }
}

std::string_view Vocabulary::BytesOf(int32_t id) const {
  return Contains(id) ? std::string_view(pieces_[id].bytes)
                      : std::string_view();
}

TokenKind Vocabulary::KindOf(int32_t id) const {
  return Contains(id) ? pieces_[id].kind : TokenKind::kUnused;
}

std::optional<int32_t> Vocabulary::Find(std::string_view bytes) const {
  const auto it = ids_.find(bytes);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') {
    return std::nullopt;
  }
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high << 4 | low);
}

}  // namespace headrace
