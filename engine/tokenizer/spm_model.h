// SentencePiece's byte pair encoding, by scores: the adjacent pair whose
// concatenation is the piece with the highest score is merged first.
//
// Source: google/sentencepiece 0.2, src/bpe_model.cc; as GGUF files
// (tokenizer.ggml.model "llama") and llama2.c hold it, without merges.
#ifndef HEADRACE_ENGINE_TOKENIZER_SPM_MODEL_H_
#define HEADRACE_ENGINE_TOKENIZER_SPM_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/token_model.h"
#include "engine/tokenizer/tokenizer.h"

namespace headrace {

struct SpmPiece {
  // As the file writes it; a byte piece is its one byte.
  std::string_view text;
  float score = 0;
  TokenKind kind = TokenKind::kNormal;
};

class SpmModel final : public TokenModel {
 public:
  // `pieces`: [vocab_size]. `space`: what stands for a space in them. Only
  // normal and unused pieces are made by merging. `unk_id` stands for
  // characters that neither pieces nor bytes can write; without it they are
  // left out.
  //
  // Errors: DATA_LOSS naming the token whose score is not a number.
  static absl::StatusOr<std::unique_ptr<SpmModel>> Create(
      const std::vector<SpmPiece>& pieces, std::string_view space,
      std::optional<int32_t> unk_id);

  void Tokenize(std::string_view word, MergeScratch* scratch,
                std::vector<int32_t>* ids) const override;
  std::string_view word_start() const override { return word_start_; }

 private:
  SpmModel() = default;
  void AppendUnknown(std::string_view character,
                     std::vector<int32_t>* ids) const;

  TextMap<MergeResult> pieces_;
  size_t longest_ = 0;  // piece, in bytes
  std::array<int32_t, 256> byte_ids_;
  std::optional<int32_t> unk_id_;
  std::string word_start_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_SPM_MODEL_H_
