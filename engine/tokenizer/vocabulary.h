// The pieces of a tokenizer by id: what bytes they stand for, and what kind
// they are.
#ifndef HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_
#define HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/tokenizer.h"

namespace headrace {

class Vocabulary {
 public:
  struct Piece {
    std::string bytes;
    TokenKind kind = TokenKind::kUnused;
  };

  Vocabulary() = default;
  explicit Vocabulary(std::vector<Piece> pieces);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  bool Contains(int64_t id) const { return id >= 0 && id < size(); }
  std::string_view BytesOf(int32_t id) const;
  TokenKind KindOf(int32_t id) const;
  // Of several pieces with the same bytes: control and user-defined ones
  // first, then normal ones, bytes last; then the lowest id.
  std::optional<int32_t> Find(std::string_view bytes) const;

 private:
  std::vector<Piece> pieces_;
  TextViewMap<int32_t> ids_;  // into pieces_
};

// The byte of "<0xNN>", with exactly two hexadecimal digits.
std::optional<uint8_t> ParseByteToken(std::string_view text);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_
