// Chats are encoded as one text in which only the template's own words may be
// control tokens.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using Ids = std::vector<int32_t>;

Ids Whole(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.Encode(text,
                          {.add_special_tokens = false, .parse_special = true});
}

TEST(EncodeSegmentsTest, RecognisesControlTokensOnlyWhereAllowed) {
  const auto tokenizer = MakeGoldenTokenizer("smollm");
  ASSERT_NE(tokenizer, nullptr);
  const int32_t start = tokenizer->TokenId("<|im_start|>").value();
  const int32_t end = tokenizer->TokenId("<|im_end|>").value();

  const Ids ids = tokenizer->EncodeSegments({{"<|im_start|>user\n", true},
                                             {"<|im_end|>", false},
                                             {"<|im_end|>\n", true}},
                                            std::nullopt);

  EXPECT_EQ(std::count(ids.begin(), ids.end(), start), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(tokenizer->Decode(ids, false),
            "<|im_start|>user\n<|im_end|><|im_end|>\n");
}

TEST(EncodeSegmentsTest, ForgesNothingAcrossABorder) {
  const auto tokenizer = MakeGoldenTokenizer("smollm");
  ASSERT_NE(tokenizer, nullptr);
  const int32_t end = tokenizer->TokenId("<|im_end|>").value();
  const std::string token = "<|im_end|>";

  for (size_t cut = 1; cut < token.size(); ++cut) {
    for (const bool first : {false, true}) {
      for (const bool second : {false, true}) {
        const Ids ids = tokenizer->EncodeSegments(
            {{token.substr(0, cut), first}, {token.substr(cut), second}},
            false);
        EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 0) << cut;
        EXPECT_EQ(tokenizer->Decode(ids, false), token);
      }
    }
  }
}

TEST(EncodeSegmentsTest, HidesNoControlTokenBehindTheBeginningOfOne) {
  // "<|im_start|>" begun by the message, then the template's "<|im_end|>".
  const auto tokenizer = MakeGoldenTokenizer("smollm");
  ASSERT_NE(tokenizer, nullptr);
  const int32_t end = tokenizer->TokenId("<|im_end|>").value();

  for (const std::string text : {"<", "<|", "<|im_", "<|im_end|", "<im"}) {
    const Ids ids = tokenizer->EncodeSegments(
        {{text, false}, {"<|im_end|>", true}}, std::nullopt);
    ASSERT_FALSE(ids.empty());
    EXPECT_EQ(ids.back(), end) << text;
  }
}

class HarmlessTest : public testing::TestWithParam<const char*> {};

TEST_P(HarmlessTest, TextIsEncodedAsAWholeHoweverItIsCut) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const GoldenTexts& texts = ReadGoldenTexts();
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    std::vector<TextSegment> segments;
    std::string whole;
    for (int i = 0; i < 4; ++i) {
      std::string text = texts.texts[random() % texts.texts.size()];
      // Nothing that is, or may become, a control token.
      if (text.find('<') != std::string::npos) text = "harmless ";
      whole += text;
      segments.push_back({text, random() % 2 == 0});
    }
    EXPECT_EQ(tokenizer->EncodeSegments(segments, false),
              Whole(*tokenizer, whole))
        << whole;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, HarmlessTest,
                         testing::Values("smollm", "llama3", "qwen2", "llama2",
                                         "metaspace", "gemma",
                                         "llama2_normalized_specials"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(EncodeSegmentsTest, AllowedSegmentsEqualTheWholeText) {
  for (const char* const name : {"smollm", "llama2_normalized_specials"}) {
    const auto tokenizer = MakeGoldenTokenizer(name);
    ASSERT_NE(tokenizer, nullptr);
    const std::string special =
        std::string(name) == "smollm" ? "<|im_end|>" : " <s>";
    EXPECT_EQ(
        tokenizer->EncodeSegments({{"a " + special, true},
                                   {" message ", false},
                                   {special + "\nb", true}},
                                  false),
        Whole(*tokenizer, "a " + special + " message " + special + "\nb"));
  }
}

TEST(EncodeSegmentsTest, KeepsControlTokensOfNormalizedTextInert) {
  // Here <s> is looked for in normalised text, where borders have moved.
  const auto tokenizer = MakeGoldenTokenizer("llama2_normalized_specials");
  ASSERT_NE(tokenizer, nullptr);
  const int32_t bos = tokenizer->TokenId("<s>").value();

  const Ids ids = tokenizer->EncodeSegments(
      {{"a b c <s> d", true}, {" x y z <s> w", false}, {" <s>", true}}, false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), bos), 2);
}

TEST(EncodeSegmentsTest, AddsSpecialTokensAsTheFilesSay) {
  const auto tokenizer = MakeGoldenTokenizer("gemma");
  ASSERT_NE(tokenizer, nullptr);

  EXPECT_EQ(tokenizer->EncodeSegments({}, std::nullopt), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->EncodeSegments({{"", true}}, true), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->EncodeSegments({}, false), Ids{});
}

}  // namespace
}  // namespace headrace
