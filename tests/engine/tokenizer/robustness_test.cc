// Any bytes, of any length, come through: nothing hangs, nothing is lost.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/normalizer.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

class ByteLevelTest : public testing::TestWithParam<const char*> {};

TEST_P(ByteLevelTest, GivesRandomBytesBack) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    // Half of the rounds draw from bytes that begin and continue characters.
    for (char& byte : bytes) {
      const auto drawn = static_cast<uint8_t>(random());
      constexpr uint8_t kLikely[] = {' ',  '\n', 'a',  '1',  0xC3, 0xA9, 0xE2,
                                     0x80, 0x85, 0xF0, 0x9F, 0x98, 0xCC, 0x81};
      byte = static_cast<char>(
          round % 2 == 0 ? drawn : kLikely[drawn % sizeof(kLikely)]);
    }
    const std::vector<int32_t> ids = tokenizer->Encode(bytes, {});
    EXPECT_EQ(tokenizer->Decode(ids, true), bytes) << round;
  }
}

TEST_P(ByteLevelTest, GivesTextsBack) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& text : ReadGoldenTexts().texts) {
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, {}), true), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, ByteLevelTest,
                         testing::Values("gpt2", "llama3", "tekken"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class HostileTextTest : public testing::TestWithParam<const char*> {};

// Quadratic work on a megabyte would take minutes; linear work takes well
// under a second, and ten allows for sanitizers on a loaded machine.
TEST_P(HostileTextTest, AMegabyteIsQuick) {
  const auto tokenizer = MakeGoldenTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::string units[] = {
      "a",        " ",      "\n",           "1",      "=",    "A",
      "四",       "\u0301", "\u0316\u0301", " \n",    "\xFF", "a\u0301",
      "'s",       "<|",     "<L",           "\u0f73", " a",   "▁",
      "\xF0\x9F", "<s"};
  for (const std::string& unit : units) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids =
        tokenizer->Encode(text, {.parse_special = true});
    const std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 10) << unit;
    EXPECT_FALSE(ids.empty()) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, HostileTextTest,
                         testing::Values("smollm", "qwen2", "tekken", "llama2"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(NormalizeUnicodeTest, ComposesAndOrdersMarks) {
  EXPECT_EQ(NormalizeUnicode("e\u0301", UnicodeForm::kNfc), "é");
  EXPECT_EQ(NormalizeUnicode("q\u0307\u0323", UnicodeForm::kNfc),
            "q\u0323\u0307");
  EXPECT_EQ(NormalizeUnicode("\u1112\u1161\u11ab", UnicodeForm::kNfc), "한");
  EXPECT_EQ(NormalizeUnicode("é", UnicodeForm::kNfd), "e\u0301");
  EXPECT_EQ(NormalizeUnicode("ﬁ²", UnicodeForm::kNfkc), "fi2");
  EXPECT_EQ(NormalizeUnicode("\u0f73", UnicodeForm::kNfc), "\u0f71\u0f72");
}

TEST(NormalizeUnicodeTest, LeavesIllFormedBytesAlone) {
  EXPECT_EQ(NormalizeUnicode("e\u0301\xFF\xE2\x82"
                             "e\u0301\xC3",
                             UnicodeForm::kNfc),
            "é\xFF\xE2\x82é\xC3");
}

}  // namespace
}  // namespace headrace
