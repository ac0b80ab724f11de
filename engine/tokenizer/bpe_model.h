// Byte pair encoding by ranked merges, over bytes (GPT-2) or characters
// (Llama 2 as Hugging Face has it).
//
// Source: Sennrich et al. 2016, arXiv:1508.07909, algorithm 1; the options are
// those of `model` in tokenizer.json (huggingface/tokenizers 0.22,
// models/bpe).
#ifndef HEADRACE_ENGINE_TOKENIZER_BPE_MODEL_H_
#define HEADRACE_ENGINE_TOKENIZER_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/token_model.h"

namespace headrace {

struct BpeOptions {
  // Pieces are written in the byte-level alphabet and words are bytes.
  bool byte_level = false;
  // A word that is a piece is that piece, whatever the merges say.
  bool ignore_merges = false;
  // A character that is no piece becomes its bytes, <0x00> to <0xFF>.
  bool byte_fallback = false;
  // Adjacent unknown characters become one unknown token.
  bool fuse_unk = false;
  // For what is no piece; without it such characters are left out.
  std::optional<int32_t> unk_id;
};

struct BpePieces {
  // As the file writes them. Later merges win over equal earlier ones.
  TextViewMap<int32_t> ids;
  std::vector<std::pair<std::string_view, std::string_view>> merges;
};

// The two pieces of "left right"; nullopt when it is something else.
std::optional<std::pair<std::string_view, std::string_view>> SplitMerge(
    std::string_view text);

class BpeModel final : public TokenModel {
 public:
  // Errors: DATA_LOSS naming the merge whose parts or result are no pieces;
  // UNIMPLEMENTED for byte_fallback over an incomplete byte-level alphabet.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(
      const BpePieces& pieces, const BpeOptions& options);

  void Tokenize(std::string_view word, MergeScratch* scratch,
                std::vector<int32_t>* ids) const override;
  std::string_view word_start() const override { return word_start_; }

 private:
  explicit BpeModel(const BpeOptions& options) : options_(options) {}

  absl::Status AddMerges(const BpePieces& pieces);
  absl::Status FindBytes(const BpePieces& pieces);
  void KeepWords(const BpePieces& pieces);
  // Symbols of single bytes or characters, -1 where there is no piece.
  void Start(std::string_view word, std::vector<MergeSymbol>* symbols) const;
  void StartUnit(std::string_view word, uint32_t begin, uint32_t length,
                 std::vector<MergeSymbol>* symbols) const;

  BpeOptions options_;
  std::string word_start_;
  // By left id << 32 | right id.
  absl::flat_hash_map<uint64_t, MergeResult> merges_;
  std::array<int32_t, 256> byte_ids_;      // byte-level: one byte
  std::array<int32_t, 256> fallback_ids_;  // <0xNN>
  bool can_fall_back_ = false;             // all of them exist
  // Whole pieces by the bytes they stand for, where the options need them.
  TextMap<int32_t> words_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_BPE_MODEL_H_
