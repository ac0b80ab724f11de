// What is wrong or not supported is named, never ignored.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer_factory.h"
#include "engine/tokenizer/vocabulary.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

void ExpectError(const ordered_json& metadata, TokenizerFormat format,
                 absl::StatusCode code, const std::string& named) {
  const auto made = CreateTokenizer(metadata, format);
  ASSERT_FALSE(made.ok()) << named;
  EXPECT_EQ(made.status().code(), code) << made.status();
  EXPECT_NE(std::string(made.status().message()).find(named), std::string::npos)
      << made.status() << " does not name " << named;
}

TEST(TokenizerFactoryTest, GivesNullWhereThereIsNoTokenizer) {
  for (const TokenizerFormat format :
       {TokenizerFormat::kGguf, TokenizerFormat::kHuggingFace,
        TokenizerFormat::kLlama2c}) {
    const auto made = CreateTokenizer(ordered_json::object(), format);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(*made, nullptr);
  }
  const auto none = CreateTokenizer({{"tokenizer.ggml.model", "none"}},
                                    TokenizerFormat::kGguf);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
}

struct Change {
  std::string pointer;  // in tokenizer.json
  ordered_json value;
  absl::StatusCode code;
  std::string named;
};

TEST(HuggingFaceErrorsTest, NameWhatIsNotSupportedOrWrong) {
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  constexpr auto kBroken = absl::StatusCode::kDataLoss;
  const std::vector<Change> changes = {
      {"/model/type", "Unigram", kUnsupported, "model.type \"Unigram\""},
      {"/model/dropout", 0.1, kUnsupported, "model.dropout"},
      {"/model/end_of_word_suffix", "</w>", kUnsupported,
       "model.end_of_word_suffix \"</w>\""},
      {"/model/surprise", 1, kUnsupported, "model.surprise"},
      {"/surprise", 1, kUnsupported, "tokenizer.surprise"},
      {"/normalizer", {{"type", "Lowercase"}}, kUnsupported, "\"Lowercase\""},
      {"/pre_tokenizer",
       {{"type", "Whitespace"}},
       kUnsupported,
       "pre_tokenizer: the type \"Whitespace\""},
      {"/pre_tokenizer/use_magic", true, kUnsupported,
       "pre_tokenizer.use_magic"},
      {"/post_processor",
       {{"type", "BertProcessing"}},
       kUnsupported,
       "\"BertProcessing\""},
      {"/decoder", {{"type", "CTC"}}, kUnsupported, "decoder: the type"},
      {"/model/unk_token", "<none>", kBroken, "unk_token"},
      {"/model/vocab/zzz", 3, kBroken, "the id 3"},
      {"/model/vocab/zzz", -1, kBroken, "has id -1"},
      {"/model/vocab/zzz", 1 << 24, kBroken, "has id 16777216"},
      {"/model/vocab/zzz", "x", kBroken, "found string, wanted integer"},
      {"/model/merges/0", "abc", kBroken, "model.merges[0]"},
      {"/model/merges/0", ordered_json::array({"zz", "yy"}), kBroken,
       "merge 0 (\"zz\" + \"yy\")"},
      {"/model/ignore_merges", "yes", kBroken, "model.ignore_merges"},
      {"/added_tokens/0/id", 5, kBroken, "added_tokens[0]"},
      {"/added_tokens/0/content", "", kBroken, "added_tokens[0].content"},
      {"/model", nullptr, kBroken, "tokenizer.model is missing"},
  };
  for (const Change& change : changes) {
    ordered_json file = ReadGolden("gpt2.tokenizer");
    file[ordered_json::json_pointer(change.pointer)] = change.value;
    ExpectError({{"tokenizer", file}}, TokenizerFormat::kHuggingFace,
                change.code, change.named);
  }
}

TEST(HuggingFaceErrorsTest, NameTheStepWithinASequence) {
  ordered_json file = ReadGolden("llama3.tokenizer");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a[b]]";
  ExpectError({{"tokenizer", file}}, TokenizerFormat::kHuggingFace,
              absl::StatusCode::kUnimplemented,
              "tokenizer.pre_tokenizer.pretokenizers[0]");
}

TEST(HuggingFaceErrorsTest, NameTheTokenThatTheConfigLacks) {
  ordered_json metadata = {{"tokenizer", ReadGolden("gpt2.tokenizer")},
                           {"tokenizer_config", {{"eos_token", "<none>"}}}};
  ExpectError(metadata, TokenizerFormat::kHuggingFace,
              absl::StatusCode::kDataLoss, "tokenizer_config.eos_token");
}

TEST(HuggingFaceTokenizerTest, CollectsEndTokensFromAllFiles) {
  ordered_json metadata = {
      {"tokenizer", ReadGolden("llama3.tokenizer")},
      {"config", {{"eos_token_id", 1}, {"bos_token_id", 0}}},
      {"generation_config", {{"eos_token_id", {1, 2, 999999}}}},
      {"tokenizer_config", {{"eos_token", {{"content", "<|end_of_text|>"}}}}}};
  const auto tokenizer = MakeHuggingFace(metadata);
  ASSERT_NE(tokenizer, nullptr);

  EXPECT_EQ(tokenizer->end_token_ids(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokenizer->bos_token_id(), 0);
}

TEST(HuggingFaceTokenizerTest, ReadsBothFormsOfMerges) {
  ordered_json file = ReadGolden("gpt2.tokenizer");
  for (ordered_json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const auto tokenizer = MakeHuggingFace({{"tokenizer", file}});
  ASSERT_NE(tokenizer, nullptr);

  ExpectMatchesGolden(*tokenizer, ReadGolden("gpt2.golden"));
}

TEST(GgufErrorsTest, NameTheKey) {
  constexpr auto kBroken = absl::StatusCode::kDataLoss;
  const std::string key = "tokenizer.ggml.";
  const std::vector<Change> changes = {
      {"model", "bert", absl::StatusCode::kUnimplemented,
       "tokenizer.ggml.model \"bert\""},
      {"pre", "klingon", absl::StatusCode::kUnimplemented,
       "tokenizer.ggml.pre: the pre-tokenizer \"klingon\""},
      {"eos_token_id", 260, kBroken,
       "eos_token_id is 260, but the tokenizer has 260 tokens"},
      {"padding_token_id", 4294967295, kBroken, "padding_token_id"},
      {"seperator_token_id", -1, kBroken, "seperator_token_id is -1"},
      {"eot_token_id", "2", kBroken, "found string, wanted integer"},
      {"token_type", ordered_json::array({1, 2}), kBroken,
       "tokenizer.ggml.token_type has 2 entries"},
      {"tokens", ordered_json::array(), kBroken, "tokens is missing or empty"},
      {"tokens", 5, kBroken, "tokens: found number, wanted array"},
      {"merges", ordered_json::array({"a"}), kBroken, "merges[0]"},
      {"merges", ordered_json::array({"a zz"}), kBroken, "\"zz\""},
      {"add_eos_token", true, kBroken, "there is no eos_token_id"},
  };
  for (const Change& change : changes) {
    ordered_json tokens = ordered_json::array();
    for (int i = 0; i < 256; ++i) tokens.push_back("<byte" + std::to_string(i));
    for (const char* const text : {"a", "b", "ab", "c"}) tokens.push_back(text);
    ordered_json metadata = {{key + "model", "gpt2"},
                             {key + "tokens", tokens},
                             {key + "merges", {"a b"}}};
    ASSERT_TRUE(CreateTokenizer(metadata, TokenizerFormat::kGguf).ok());
    metadata[key + change.pointer] = change.value;
    ExpectError(metadata, TokenizerFormat::kGguf, change.code, change.named);
  }
}

TEST(GgufErrorsTest, NameWhatSentencePieceFilesLack) {
  const ordered_json model = {
      {"tokenizer.ggml.model", "llama"},
      {"tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x0A>", "▁"}},
      {"tokenizer.ggml.scores", {0, 0, 0, 0, -1.5}},
      {"tokenizer.ggml.token_type", {2, 3, 3, 6, 1}}};
  ASSERT_TRUE(CreateTokenizer(model, TokenizerFormat::kGguf).ok());
  const std::vector<Change> changes = {
      {"/tokenizer.ggml.scores",
       {1.0},
       absl::StatusCode::kDataLoss,
       "scores has 1 entries"},
      {"/tokenizer.ggml.scores/4", std::nan(""), absl::StatusCode::kDataLoss,
       "score of token 4"},
      {"/tokenizer.ggml.tokens/3", "<0xA>", absl::StatusCode::kDataLoss,
       "tokens[3] is of type byte but reads \"<0xA>\""},
      {"/tokenizer.ggml.token_type/4", 9, absl::StatusCode::kDataLoss,
       "token_type[4] is 9"},
      {"/tokenizer.ggml.remove_extra_whitespaces", true,
       absl::StatusCode::kUnimplemented, "remove_extra_whitespaces"},
  };
  for (const Change& change : changes) {
    ordered_json metadata = model;
    metadata[ordered_json::json_pointer(change.pointer)] = change.value;
    ExpectError(metadata, TokenizerFormat::kGguf, change.code, change.named);
  }
}

TEST(GgufTokenizerTest, AddsBosWhereTheFileOrItsKindSays) {
  const ordered_json file = ReadGolden("llama3.tokenizer");
  ordered_json metadata = ToGguf(file, "llama-bpe");
  metadata["tokenizer.ggml.bos_token_id"] = 0;
  metadata["tokenizer.ggml.eos_token_id"] = 1;
  metadata["tokenizer.ggml.eot_token_id"] = 2;
  const auto encode = [](const ordered_json& keys) {
    const auto made = CreateTokenizer(keys, TokenizerFormat::kGguf);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? (*made)->Encode("", {}) : std::vector<int32_t>{-1};
  };

  EXPECT_EQ(encode(metadata), std::vector<int32_t>{0});
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(encode(metadata), std::vector<int32_t>{});
  metadata["tokenizer.ggml.pre"] = "gpt-2";
  metadata["tokenizer.ggml.add_bos_token"] = true;
  metadata["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(encode(metadata), (std::vector<int32_t>{0, 1}));
  const auto made = CreateTokenizer(metadata, TokenizerFormat::kGguf);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->end_token_ids(), (std::vector<int32_t>{1, 2}));
}

TEST(Llama2cErrorsTest, NameTheEntry) {
  ExpectError({{"tokenizer", {{"tokens", {"a", "b"}}, {"scores", {1, 2}}}}},
              TokenizerFormat::kLlama2c, absl::StatusCode::kDataLoss,
              "found 2 tokens and 2 scores");
  ExpectError(
      {{"tokenizer", {{"tokens", {"a", "b", "四"}}, {"scores", {1, 2, 3}}}}},
      TokenizerFormat::kLlama2c, absl::StatusCode::kDataLoss,
      "tokenizer.tokens[2] is not Latin-1");
}

TEST(ParseByteTokenTest, WantsExactlyTwoHexadecimalDigits) {
  EXPECT_EQ(ParseByteToken("<0x0A>"), 0x0A);
  EXPECT_EQ(ParseByteToken("<0xfF>"), 0xFF);
  for (const char* const text : {"<0xA>", "<0x00A>", "<0x+A>", "<0x 1>",
                                 "<0xG1>", "0x0A", "<0x0A", ""}) {
    EXPECT_EQ(ParseByteToken(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace headrace
