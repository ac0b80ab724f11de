// The tokenizer that all file formats are made into: added tokens, then the
// normaliser, the pre-tokenizer and the model, then the ids that go around.
#ifndef HEADRACE_ENGINE_TOKENIZER_PIPELINE_TOKENIZER_H_
#define HEADRACE_ENGINE_TOKENIZER_PIPELINE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/token_model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace headrace {

struct TokenizerParts {
  Vocabulary vocabulary;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  // Around every text, when special tokens are added.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> end_token_ids;
  bool strips_leading_space = false;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  // Every id in `parts` is within its vocabulary.
  explicit PipelineTokenizer(TokenizerParts parts);

  int64_t vocab_size() const override { return parts_.vocabulary.size(); }
  std::vector<int32_t> Encode(std::string_view text,
                              const EncodeOptions& options) const override;
  std::vector<int32_t> EncodeSegments(
      const std::vector<TextSegment>& segments,
      std::optional<bool> add_special_tokens) const override;
  std::string_view TokenBytes(int32_t id) const override {
    return parts_.vocabulary.BytesOf(id);
  }
  TokenKind KindOf(int32_t id) const override {
    return parts_.vocabulary.KindOf(id);
  }
  std::string Decode(const std::vector<int32_t>& ids,
                     bool skip_special_tokens) const override;
  bool strips_leading_space() const override {
    return parts_.strips_leading_space;
  }
  std::optional<int32_t> TokenId(std::string_view piece) const override {
    return parts_.vocabulary.Find(piece);
  }
  std::optional<int32_t> bos_token_id() const override {
    return parts_.bos_token_id;
  }
  const std::vector<int32_t>& end_token_ids() const override {
    return parts_.end_token_ids;
  }

 private:
  class WordEncoder;

  std::vector<int32_t> EncodeText(std::string_view text,
                                  const std::vector<SegmentBorder>& borders,
                                  bool add_special_tokens) const;
  // `section`: text between two added tokens, or all of it.
  void EncodeSection(std::string_view text, AddedSpan section,
                     const std::vector<SegmentBorder>& borders,
                     WordEncoder* encoder) const;
  std::vector<SegmentBorder> NormalizedBorders(
      std::string_view text, AddedSpan section,
      const std::vector<SegmentBorder>& borders, size_t normalized_size) const;

  TokenizerParts parts_;
  AddedTokenMatcher raw_matcher_;
  AddedTokenMatcher normalized_matcher_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_PIPELINE_TOKENIZER_H_
