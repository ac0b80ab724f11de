// What every GGUF tokenizer has: its tokens with their types, the ids of its
// special tokens, and which of them go around a text.
#ifndef HEADRACE_ENGINE_TOKENIZER_GGUF_VOCABULARY_H_
#define HEADRACE_ENGINE_TOKENIZER_GGUF_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/pipeline_tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace headrace {

inline constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens";

struct GgufVocabulary {
  std::vector<std::string_view> texts;  // as in the file, which outlives this
  std::vector<TokenKind> kinds;
  bool has_types = false;  // the file says the kinds; all are normal otherwise
  std::vector<AddedToken> added_tokens;

  int64_t size() const { return static_cast<int64_t>(texts.size()); }
};

// Errors: DATA_LOSS naming the key and the entry.
absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const JsonReader& reader);

// The bytes that each token stands for. `decode`: those of a normal token.
// Errors: DATA_LOSS naming the byte token that reads otherwise.
absl::StatusOr<std::vector<Vocabulary::Piece>> MakeGgufPieces(
    const GgufVocabulary& vocabulary,
    absl::FunctionRef<std::string(std::string_view text)> decode);

struct GgufSpecialIds {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> unk;
  std::vector<int32_t> ends;  // eos, eot, eom
};

// Errors: DATA_LOSS naming the key whose id no token has.
absl::StatusOr<GgufSpecialIds> ReadGgufSpecialIds(const JsonReader& reader,
                                                  int64_t vocab_size);

// Sets BOS and EOS around a text, and the ends. `adds_bos`: where the file
// does not say.
absl::Status SetGgufSpecialIds(const JsonReader& reader,
                               const GgufSpecialIds& special, bool adds_bos,
                               TokenizerParts* parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_GGUF_VOCABULARY_H_
