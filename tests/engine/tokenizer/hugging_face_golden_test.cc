// tokenizer.json against the tokenizers library itself.
#include <string>

#include "engine/tokenizer/tokenizer_factory.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

class HuggingFaceGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(HuggingFaceGoldenTest, EncodesAndDecodesAsTokenizersDoes) {
  const std::string name = GetParam();
  const auto tokenizer = MakeGoldenTokenizer(name);
  ASSERT_NE(tokenizer, nullptr);

  ExpectMatchesGolden(*tokenizer, ReadGolden(name + ".golden"));
}

INSTANTIATE_TEST_SUITE_P(Files, HuggingFaceGoldenTest,
                         testing::Values("gpt2", "gpt2_prefix_space", "smollm",
                                         "llama3", "qwen2", "tekken", "llama2",
                                         "llama2_normalized_specials",
                                         "metaspace", "gemma", "fused_unknown"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(HuggingFaceTokenizerTest, FollowsTheTokenizerConfigAsTransformersDoes) {
  const ordered_json golden = ReadGolden("transformers.golden");
  const ordered_json file = ReadGolden("llama2_normalized_specials.tokenizer");
  for (const ordered_json& entry : golden["cases"]) {
    const auto tokenizer = MakeHuggingFace(
        {{"tokenizer", file}, {"tokenizer_config", entry["tokenizer_config"]}});
    ASSERT_NE(tokenizer, nullptr);
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const std::string text = golden["texts"][i];
      EXPECT_EQ(ordered_json(tokenizer->Encode(text, {.parse_special = true})),
                entry["ids"][i])
          << text << entry["tokenizer_config"];
      EXPECT_EQ(
          ordered_json(tokenizer->Encode(
              text, {.add_special_tokens = false, .parse_special = true})),
          entry["bare"][i])
          << text << entry["tokenizer_config"];
    }
  }
}

}  // namespace
}  // namespace headrace
