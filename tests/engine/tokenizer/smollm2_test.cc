// The default model's own tokenizer, when the model is in the cache.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

std::string DefaultModelPath() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string base =
      cache != nullptr ? std::string(cache)
                       : std::string(home != nullptr ? home : "") + "/.cache";
  return base + "/headrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class SmolLm2TokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DefaultModelPath())) {
      GTEST_SKIP() << "the default model is not in the cache";
    }
    auto source = OpenWeightSource(DefaultModelPath());
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
  }

  const ordered_json& metadata() const { return source_->metadata(); }

  // The same as a tokenizer.json.
  ordered_json ToTokenizerJson() const {
    ordered_json byte_level = {{"type", "ByteLevel"},
                               {"add_prefix_space", false},
                               {"trim_offsets", true},
                               {"use_regex", true}};
    ordered_json digits = {{"type", "Digits"}, {"individual_digits", true}};
    ordered_json file = {
        {"added_tokens", ordered_json::array()},
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers", ordered_json::array({digits, byte_level})}}},
        {"decoder", byte_level},
        {"model",
         {{"type", "BPE"}, {"merges", metadata()["tokenizer.ggml.merges"]}}}};
    ordered_json::object_t vocab;
    const ordered_json& tokens = metadata()["tokenizer.ggml.tokens"];
    for (size_t id = 0; id < tokens.size(); ++id) {
      vocab.push_back({tokens[id].get<std::string>(), id});
      if (metadata()["tokenizer.ggml.token_type"][id] != 3) continue;
      file["added_tokens"].push_back({{"id", id},
                                      {"content", tokens[id]},
                                      {"normalized", false},
                                      {"special", true}});
    }
    file["model"]["vocab"] = std::move(vocab);
    return file;
  }

 private:
  std::unique_ptr<WeightSource> source_;
};

TEST_F(SmolLm2TokenizerTest, EncodesAndDecodesAsTokenizersDoes) {
  const auto tokenizer = MakeGguf(metadata());
  ASSERT_NE(tokenizer, nullptr);

  EXPECT_EQ(tokenizer->vocab_size(), 49152);
  EXPECT_EQ(tokenizer->end_token_ids(), std::vector<int32_t>{2});
  EXPECT_EQ(tokenizer->bos_token_id(), 1);
  EXPECT_EQ(tokenizer->TokenId("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer->Encode("a1b22  333", {}),
            (std::vector<int32_t>{81, 33, 82, 34, 34, 256, 35, 35, 35}));
  EXPECT_EQ(tokenizer->Encode(std::string("ab\0cd", 5), {}),
            (std::vector<int32_t>{369, 190, 13133}));
  EXPECT_EQ(tokenizer->Decode({369, 190, 13133}, true),
            std::string("ab\0cd", 5));
  ExpectMatchesGolden(*tokenizer, ReadGolden("smollm2.golden"));
}

TEST_F(SmolLm2TokenizerTest, IsTheSameFromBothKindsOfFile) {
  const auto tokenizer = MakeHuggingFace({{"tokenizer", ToTokenizerJson()}});
  ASSERT_NE(tokenizer, nullptr);

  ExpectMatchesGolden(*tokenizer, ReadGolden("smollm2.golden"));
}

TEST_F(SmolLm2TokenizerTest, HonoursTheFlagsOfAddedTokens) {
  ordered_json file = ToTokenizerJson();
  const auto add = [&file](int id, const char* content, const char* flag) {
    file["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"normalized", true},
                                    {"special", false},
                                    {flag, true}});
  };
  add(49152, "<L>", "lstrip");
  add(49153, "<R>", "rstrip");
  add(15236, "foo", "single_word");  // a piece already
  add(49154, "<fi", "normalized");
  add(49155, "<file>", "normalized");
  const auto tokenizer = MakeHuggingFace({{"tokenizer", file}});
  ASSERT_NE(tokenizer, nullptr);
  using Ids = std::vector<int32_t>;

  EXPECT_EQ(tokenizer->Encode("x  <L>  y", {}), (Ids{104, 49152, 216, 329}));
  EXPECT_EQ(tokenizer->Encode("x  <R>  y", {}), (Ids{104, 256, 49153, 105}));
  EXPECT_EQ(tokenizer->Encode("x\u00a0\n<L>y", {}), (Ids{104, 49152, 105}));
  EXPECT_EQ(tokenizer->Encode("food foo foo. <foo>", {}),
            (Ids{14904, 216, 15236, 216, 15236, 30, 2067, 15236, 46}));
  EXPECT_EQ(tokenizer->Encode("<file><fi<filex", {}),
            (Ids{49155, 49154, 49154, 2480}));
}

}  // namespace
}  // namespace headrace
