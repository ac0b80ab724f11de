#include "engine/tokenizer/vocabulary.h"

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

Vocabulary::Vocabulary(const std::vector<Piece>& pieces) {
  size_t num_bytes = 0;
  for (const Piece& piece : pieces) num_bytes += piece.bytes.size();
  texts_->bytes.reserve(num_bytes);
  texts_->begins.reserve(pieces.size() + 1);
  kinds_.reserve(pieces.size());
  ids_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const auto id = static_cast<int32_t>(kinds_.size());
    texts_->bytes += piece.bytes;
    texts_->begins.push_back(texts_->bytes.size());
    kinds_.push_back(piece.kind);
    if (piece.bytes.empty()) continue;
    const auto same = ids_.find(std::string_view(piece.bytes));
    if (same == ids_.end()) {
      ids_.insert(id);
    } else if (Precedence(piece.kind) < Precedence(KindOf(*same))) {
      ids_.erase(same);
      ids_.insert(id);
    }
  }
}

std::string_view Vocabulary::BytesOf(int32_t id) const {
  return Contains(id) ? (*texts_)[id] : std::string_view();
}

TokenKind Vocabulary::KindOf(int32_t id) const {
  return Contains(id) ? kinds_[id] : TokenKind::kUnused;
}

std::optional<int32_t> Vocabulary::Find(std::string_view bytes) const {
  const auto it = ids_.find(bytes);
  if (it == ids_.end()) return std::nullopt;
  return *it;
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
