// Text to token ids and back, exactly as the reference libraries do it.
#ifndef HEADRACE_ENGINE_TOKENIZER_TOKENIZER_H_
#define HEADRACE_ENGINE_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

enum class TokenKind : uint8_t {
  kNormal,
  kUnknown,
  kControl,      // bytes, but no text: <|im_end|>
  kUserDefined,  // added, matched in text, ordinary otherwise
  kByte,         // <0x0A>
  kUnused,
};

struct EncodeOptions {
  // BOS/EOS as the tokenizer's own files say; nullopt means that too.
  std::optional<bool> add_special_tokens;
  // Let control tokens be recognised in the text. Off: user text never
  // becomes one. User-defined tokens match either way.
  bool parse_special = false;
};

// A piece of text and whether its control tokens may be recognised: how a
// rendered chat is encoded as a whole, with message text kept inert.
struct TextSegment {
  std::string text;
  bool parse_special = false;
};

// Immutable, thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocab_size() const = 0;
  // `text` is any bytes: NUL and invalid UTF-8 included.
  virtual std::vector<int32_t> Encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // Encodes the concatenation as one text, recognising control tokens only
  // inside segments that allow it and never across a border.
  virtual std::vector<int32_t> EncodeSegments(
      const std::vector<TextSegment>& segments,
      std::optional<bool> add_special_tokens) const = 0;

  // The exact bytes of one token in mid-text; empty for ids out of range.
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  virtual TokenKind KindOf(int32_t id) const = 0;
  // Decodes a whole sequence: concatenated pieces, the leading space that the
  // encoder added taken off again, invalid UTF-8 kept as bytes.
  virtual std::string Decode(const std::vector<int32_t>& ids,
                             bool skip_special_tokens) const = 0;
  // True when the first text piece of a decoded sequence loses one leading
  // space (SentencePiece with a dummy prefix).
  virtual bool strips_leading_space() const = 0;

  // The id of a token by its text; nullopt when there is none.
  virtual std::optional<int32_t> TokenId(std::string_view piece) const = 0;
  virtual std::optional<int32_t> bos_token_id() const = 0;
  // Every token that ends a turn or a text, as the files declare.
  virtual const std::vector<int32_t>& end_token_ids() const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_TOKENIZER_H_
