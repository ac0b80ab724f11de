// A tokenizer whose ids are bytes: what a test writes is what it counts.
#ifndef HEADRACE_TESTS_FAKES_FAKE_TOKENIZER_H_
#define HEADRACE_TESTS_FAKES_FAKE_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace headrace {

inline constexpr int32_t kFakeBos = 256;      // "<s>"
inline constexpr int32_t kFakeEos = 257;      // "</s>"
inline constexpr int32_t kFakeImStart = 258;  // "<|im_start|>"
inline constexpr int32_t kFakeImEnd = 259;    // "<|im_end|>"
inline constexpr int64_t kFakeVocabSize = 260;

// Ids 0 to 255 are bytes, the others control tokens; <s> goes in front when
// `adds_bos`. Both </s> and <|im_end|> are end tokens.
class FakeTokenizer final : public Tokenizer {
 public:
  explicit FakeTokenizer(bool adds_bos);

  int64_t vocab_size() const override { return kFakeVocabSize; }
  std::vector<int32_t> Encode(std::string_view text,
                              const EncodeOptions& options) const override;
  std::vector<int32_t> EncodeSegments(
      const std::vector<TextSegment>& segments,
      std::optional<bool> add_special_tokens) const override;
  std::string_view TokenBytes(int32_t id) const override;
  TokenKind KindOf(int32_t id) const override;
  std::string Decode(const std::vector<int32_t>& ids,
                     bool skip_special_tokens) const override;
  bool strips_leading_space() const override { return false; }
  std::optional<int32_t> TokenId(std::string_view piece) const override;
  std::optional<int32_t> bos_token_id() const override { return kFakeBos; }
  const std::vector<int32_t>& end_token_ids() const override {
    return end_token_ids_;
  }

 private:
  const bool adds_bos_;
  std::vector<std::string> pieces_;
  std::vector<int32_t> end_token_ids_ = {kFakeEos, kFakeImEnd};
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_FAKES_FAKE_TOKENIZER_H_
