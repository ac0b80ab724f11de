// GGUF vocabularies against the library that their tokenizer comes from.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/tokenizer/tokenizer_factory.h"
#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

struct Pre {
  const char* golden;
  const char* name;
};
class GgufPreTokenizerTest : public testing::TestWithParam<Pre> {};

TEST_P(GgufPreTokenizerTest, CutsAsTheTokenizerItNames) {
  const std::string golden = GetParam().golden;
  ordered_json file = ReadGolden(golden + ".tokenizer");
  // Flags of added tokens are what GGUF cannot say: leave those tokens out.
  auto& added = file["added_tokens"].get_ref<ordered_json::array_t&>();
  std::erase_if(added, [](const ordered_json& a) { return !a["special"]; });
  const auto reference = MakeHuggingFace({{"tokenizer", file}});
  ordered_json metadata = ToGguf(file, GetParam().name);
  metadata["tokenizer.ggml.bos_token_id"] = 0;
  const auto tokenizer = MakeGguf(metadata);
  ASSERT_NE(tokenizer, nullptr);
  ASSERT_NE(reference, nullptr);

  const GoldenTexts& texts = ReadGoldenTexts();
  for (const std::string& text : texts.texts) {
    EXPECT_EQ(tokenizer->Encode(text, {}), reference->Encode(text, {})) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Names, GgufPreTokenizerTest,
    testing::Values(Pre{"gpt2", "gpt-2"}, Pre{"smollm", "smollm"},
                    Pre{"smollm", "starcoder"}, Pre{"llama3", "llama-bpe"},
                    Pre{"qwen2", "qwen2"}, Pre{"tekken", "tekken"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::erase(name, '-');
      return name;
    });

ordered_json SentencePieceMetadata() {
  const ordered_json model = ReadGolden("sentencepiece.model");
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", model["pieces"]},
          {"tokenizer.ggml.scores", model["scores"]},
          {"tokenizer.ggml.token_type", model["types"]},
          {"tokenizer.ggml.add_bos_token", false}};
}

TEST(GgufSentencePieceTest, EncodesAsSentencePieceDoes) {
  const auto tokenizer = MakeGguf(SentencePieceMetadata());
  ASSERT_NE(tokenizer, nullptr);
  const ordered_json golden = ReadGolden("sentencepiece.golden");
  const GoldenTexts& texts = ReadGoldenTexts();

  for (size_t i = 0; i < texts.texts.size(); ++i) {
    if (golden["ids"][i].is_null()) continue;
    EXPECT_EQ(ordered_json(tokenizer->Encode(texts.texts[i], {})),
              golden["ids"][i])
        << texts.texts[i];
  }
  for (size_t i = 0; i < texts.repeated.size(); ++i) {
    EXPECT_EQ(RunLengths(tokenizer->Encode(texts.repeated[i], {})),
              golden["repeated"][i])
        << "run " << i;
  }
}

TEST(Llama2cTokenizerTest, EncodesAsSentencePieceDoesBetweenBosAndText) {
  const ordered_json model = ReadGolden("sentencepiece.model");
  ordered_json tokens = ordered_json::array();
  for (const ordered_json& piece : model["pieces"]) {
    // llama2.c's export writes spaces, and bytes as Latin-1 here.
    std::string latin1;
    std::string text = piece;
    for (size_t at = text.find("▁"); at != std::string::npos;
         at = text.find("▁")) {
      text.replace(at, std::string("▁").size(), " ");
    }
    for (const char byte : text) {
      const auto value = static_cast<uint8_t>(byte);
      if (value >= 0x80)
        latin1 += static_cast<char>(value < 0xC0 ? 0xC2 : 0xC3);
      latin1 += static_cast<char>(value < 0x80 ? value : 0x80 | (value & 0x3F));
    }
    tokens.push_back(latin1);
  }
  const auto created = CreateTokenizer(
      {{"tokenizer", {{"tokens", tokens}, {"scores", model["scores"]}}}},
      TokenizerFormat::kLlama2c);
  ASSERT_TRUE(created.ok()) << created.status();
  const Tokenizer& tokenizer = **created;
  const ordered_json golden = ReadGolden("sentencepiece.golden");
  const GoldenTexts& texts = ReadGoldenTexts();

  EXPECT_EQ(tokenizer.Encode("", {}), std::vector<int32_t>{1});
  for (size_t i = 0; i < texts.texts.size(); ++i) {
    // The mark itself is a space to SentencePiece, not to llama2.c.
    if (golden["ids"][i].is_null() ||
        texts.texts[i].find("▁") != std::string::npos) {
      continue;
    }
    ordered_json ids = golden["ids"][i];
    ids.insert(ids.begin(), 1);
    EXPECT_EQ(ordered_json(tokenizer.Encode(texts.texts[i], {})), ids)
        << texts.texts[i];
  }
}

// Cases of a .inp file and the ids of its .out file, one line each.
void ExpectMatchesVocabularyFile(const std::string& name) {
  const std::string path = std::string(HEADRACE_SOURCE_DIR) +
                           "/../shared/data/vocab/ggml-vocab-" + name + ".gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "the public vocabulary files are not beside the sources";
  }
  const auto source = OpenWeightSource(path);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto tokenizer = MakeGguf((*source)->metadata());
  ASSERT_NE(tokenizer, nullptr);
  std::stringstream inputs;
  inputs << std::ifstream(path + ".inp").rdbuf();
  std::ifstream outputs(path + ".out");
  const std::string all = inputs.str();
  const std::string border = "\n__ggml_vocab_test__\n";

  size_t begin = 0;
  while (true) {
    const size_t end = all.find(border, begin);
    if (end == std::string::npos) break;
    const std::string text = all.substr(begin, end - begin);
    begin = end + border.size();
    std::string line;
    ASSERT_TRUE(std::getline(outputs, line));
    std::istringstream words(line);
    std::vector<int32_t> expected;
    for (int32_t id; words >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer->Encode(text, {.add_special_tokens = false}), expected)
        << name << ": " << text;
  }
}

TEST(GgufVocabularyFileTest, Gpt2) { ExpectMatchesVocabularyFile("gpt-2"); }
TEST(GgufVocabularyFileTest, Starcoder) {
  ExpectMatchesVocabularyFile("starcoder");
}
TEST(GgufVocabularyFileTest, Phi3) { ExpectMatchesVocabularyFile("phi-3"); }

}  // namespace
}  // namespace headrace
