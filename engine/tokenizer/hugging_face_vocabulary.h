// The vocabulary of a Hugging Face folder: `model.vocab` and `added_tokens` of
// tokenizer.json, with what tokenizer_config.json adds.
#ifndef HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_VOCABULARY_H_
#define HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/hugging_face_steps.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/vocabulary.h"

namespace headrace {

class HfVocabulary {
 public:
  // `model`: tokenizer.json's. `config`: tokenizer_config.json; may be null.
  // The texts in `model` must outlive this.
  //
  // Added tokens are those of tokenizer.json, then those of
  // `added_tokens_decoder`, then the named special tokens (bos_token, …) that
  // are pieces. One that is there already keeps its flags, but becomes special
  // when a later one is: transformers 4.57 (tokenization_utils_fast.py) and
  // tokenizers 0.22 (added_vocabulary.rs) together do that.
  //
  // Errors: DATA_LOSS naming the id or text that contradicts another.
  static absl::StatusOr<HfVocabulary> Create(
      const JsonReader& file, const JsonReader& model,
      const nlohmann::ordered_json* config);

  const TextViewMap<int32_t>& model_ids() const { return model_ids_; }
  const std::vector<AddedToken>& added_tokens() const { return added_; }
  int64_t size() const { return size_; }
  // The id of an added token or a piece, by its text in the file.
  std::optional<int32_t> Find(std::string_view text) const;
  // The bytes and kind of each id. `unk_token`: its text; may be empty.
  std::vector<Vocabulary::Piece> Decode(const HfDecoder& decoder,
                                        std::string_view unk_token) const;

 private:
  absl::Status AddModelPieces(const JsonReader& model);
  absl::Status AddToken(const nlohmann::ordered_json& entry,
                        const std::string& path, std::optional<int64_t> id);
  absl::Status AddConfigTokens(const nlohmann::ordered_json& config);
  absl::Status AddNamedTokens(const JsonReader& config);
  absl::Status AddNamedToken(const nlohmann::ordered_json& token,
                             const std::string& path);

  TextViewMap<int32_t> model_ids_;
  std::vector<std::string_view> texts_;  // of model pieces, by id
  std::vector<AddedToken> added_;
  TextMap<size_t> added_index_;  // by content
  int64_t size_ = 0;
};

// The text of a token given as "text" or {"content": "text", …}; nullopt for
// anything else.
std::optional<std::string> TokenContent(const nlohmann::ordered_json& token);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_VOCABULARY_H_
