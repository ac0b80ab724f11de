// The pieces of a tokenizer by id: what bytes they stand for, and what kind
// they are.
#ifndef HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_
#define HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
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
  explicit Vocabulary(const std::vector<Piece>& pieces);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int64_t size() const { return static_cast<int64_t>(kinds_.size()); }
  bool Contains(int64_t id) const { return id >= 0 && id < size(); }
  std::string_view BytesOf(int32_t id) const;
  TokenKind KindOf(int32_t id) const;
  // Of several pieces with the same bytes: control and user-defined ones
  // first, then normal ones, bytes last; then the lowest id.
  std::optional<int32_t> Find(std::string_view bytes) const;

 private:
  // All bytes in one string: a vocabulary has up to a quarter of a million.
  struct Texts {
    std::string_view operator[](int32_t id) const {
      return std::string_view(bytes).substr(begins[id],
                                            begins[id + 1] - begins[id]);
    }
    std::string bytes;
    std::vector<size_t> begins = {0};
  };
  // Ids by the bytes they stand for.
  struct IdHash {
    using is_transparent = void;
    size_t operator()(std::string_view bytes) const {
      return TextHash()(bytes);
    }
    size_t operator()(int32_t id) const { return TextHash()((*texts)[id]); }
    const Texts* texts;
  };
  struct IdEqual {
    using is_transparent = void;
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(int32_t id, std::string_view bytes) const {
      return (*texts)[id] == bytes;
    }
    const Texts* texts;
  };

  std::unique_ptr<Texts> texts_ = std::make_unique<Texts>();
  std::vector<TokenKind> kinds_;
  absl::flat_hash_set<int32_t, IdHash, IdEqual> ids_{0, IdHash{texts_.get()},
                                                     IdEqual{texts_.get()}};
};

// The byte of "<0xNN>", with exactly two hexadecimal digits.
std::optional<uint8_t> ParseByteToken(std::string_view text);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_VOCABULARY_H_
