#include "engine/tokenizer/detokenizer.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using std::string_literals::operator""s;

const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

TEST(ToValidUtf8Test, ReplacesEachMaximalIllFormedPartOnce) {
  // Unicode 15, table 3-8 and the examples around it.
  EXPECT_EQ(ToValidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d");
  EXPECT_EQ(ToValidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(ToValidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(ToValidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(ToValidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(ToValidUtf8("a\0b\xF4\x8F\xBF\xBF"s), "a\0b\xF4\x8F\xBF\xBF"s);
}

TEST(CompleteUtf8PrefixTest, HoldsBackOnlyWhatCanBecomeACharacter) {
  EXPECT_EQ(CompleteUtf8Prefix(""), 0u);
  EXPECT_EQ(CompleteUtf8Prefix("ab"), 2u);
  EXPECT_EQ(CompleteUtf8Prefix("ab\xE2\x82"), 2u);
  EXPECT_EQ(CompleteUtf8Prefix("ab\xF0\x9F\x98"), 2u);
  EXPECT_EQ(CompleteUtf8Prefix("\xF0\x9F\x98\x80"), 4u);
  EXPECT_EQ(CompleteUtf8Prefix("\xF0\x8F"), 2u);  // overlong: never one
  EXPECT_EQ(CompleteUtf8Prefix("\xED\xA0"), 2u);  // surrogate: never one
  EXPECT_EQ(CompleteUtf8Prefix("a\x80\x80"), 3u);
  EXPECT_EQ(CompleteUtf8Prefix("\xC3\xC3"), 1u);
}

// Every id of `ids` through one detokenizer.
std::string Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                   bool skip_special_tokens) {
  IncrementalDetokenizer detokenizer(&tokenizer, skip_special_tokens,
                                     /*continues_text=*/false);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = detokenizer.Add(id);
    EXPECT_EQ(ToValidUtf8(piece), piece);
    text += piece;
  }
  return text + detokenizer.Flush();
}

class StreamTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamTest, EqualsTheWholeDecode) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(11);
  std::uniform_int_distribution<int32_t> draw(
      -2, static_cast<int32_t>(tokenizer->vocab_size()) + 2);

  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(round % 40);
    for (int32_t& id : ids) id = draw(random);
    for (const bool skip : {false, true}) {
      EXPECT_EQ(Stream(*tokenizer, ids, skip),
                ToValidUtf8(tokenizer->Decode(ids, skip)));
    }
  }
}

TEST_P(StreamTest, GivesTextsBack) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& text : ReadGoldenTexts().texts) {
    const std::vector<int32_t> ids = tokenizer->Encode(text, {});
    EXPECT_EQ(Stream(*tokenizer, ids, false),
              ToValidUtf8(tokenizer->Decode(ids, false)));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, StreamTest,
                         testing::Values("gpt2", "smollm", "llama3", "llama2",
                                         "metaspace", "gemma"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(IncrementalDetokenizerTest, GivesBadBytesOutAtOnce) {
  const auto tokenizer = MakeGoldenTokenizer("gpt2");
  ASSERT_NE(tokenizer, nullptr);
  const auto byte = [&](std::string_view bytes) {
    return tokenizer->TokenId(bytes).value();
  };
  IncrementalDetokenizer detokenizer(tokenizer.get(), true, false);

  EXPECT_EQ(detokenizer.Add(byte("\xF0")), "");
  EXPECT_EQ(detokenizer.Add(byte("\x9F")), "");
  EXPECT_EQ(detokenizer.Add(byte("\x98")), "");
  EXPECT_EQ(detokenizer.Add(byte("\x80")), "\xF0\x9F\x98\x80");
  EXPECT_EQ(detokenizer.Add(byte("\xE2")), "");
  EXPECT_EQ(detokenizer.Add(byte("a")), kBad + "a");
  EXPECT_EQ(detokenizer.Add(byte("\xFF")), kBad);
  EXPECT_EQ(detokenizer.Add(byte("\xE2")), "");
  EXPECT_EQ(detokenizer.Flush(), kBad);
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(IncrementalDetokenizerTest, StripsTheFirstSpaceUnlessItContinuesAText) {
  const auto tokenizer = MakeGoldenTokenizer("llama2");
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_TRUE(tokenizer->strips_leading_space());
  const std::vector<int32_t> ids =
      tokenizer->Encode("the mill", {.add_special_tokens = false});
  IncrementalDetokenizer fresh(tokenizer.get(), true, false);
  IncrementalDetokenizer continued(tokenizer.get(), true, true);
  std::string fresh_text;
  std::string continued_text;
  for (const int32_t id : ids) {
    fresh_text += fresh.Add(id);
    continued_text += continued.Add(id);
  }

  EXPECT_EQ(fresh_text, "the mill");
  EXPECT_EQ(continued_text, " the mill");
}

TEST(IncrementalDetokenizerTest, ShowsControlTokensOnlyWhenAsked) {
  const auto tokenizer = MakeGoldenTokenizer("gpt2");
  ASSERT_NE(tokenizer, nullptr);
  const int32_t end = tokenizer->TokenId("<|endoftext|>").value();
  EXPECT_EQ(tokenizer->KindOf(end), TokenKind::kControl);
  EXPECT_EQ(tokenizer->TokenBytes(end), "<|endoftext|>");

  EXPECT_EQ(IncrementalDetokenizer(tokenizer.get(), true, false).Add(end), "");
  EXPECT_EQ(IncrementalDetokenizer(tokenizer.get(), false, false).Add(end),
            "<|endoftext|>");
}

TEST(IncrementalDetokenizerTest, GivesNoTextForIdsWithoutAPiece) {
  const auto tokenizer = MakeGoldenTokenizer("gpt2");
  ASSERT_NE(tokenizer, nullptr);
  IncrementalDetokenizer detokenizer(tokenizer.get(), true, false);
  const auto size = static_cast<int32_t>(tokenizer->vocab_size());

  for (const int32_t id : {-1, size, size + 1, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(detokenizer.Add(id), "");
    EXPECT_EQ(tokenizer->TokenBytes(id), "");
    EXPECT_EQ(tokenizer->KindOf(id), TokenKind::kUnused);
  }
}

}  // namespace
}  // namespace headrace
