#include "tests/engine/tokenizer/golden_files.h"

#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/tokenizer_factory.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

void ExpectDecodes(const Tokenizer& tokenizer, const ordered_json& decoded) {
  for (const ordered_json& entry : decoded) {
    const auto ids = entry[0].get<std::vector<int32_t>>();
    EXPECT_EQ(ToValidUtf8(tokenizer.Decode(ids, false)),
              entry[1].get<std::string>())
        << entry[0];
    EXPECT_EQ(ToValidUtf8(tokenizer.Decode(ids, true)),
              entry[2].get<std::string>())
        << entry[0];
  }
}

}  // namespace

ordered_json ReadGolden(const std::string& name) {
  const std::string path = std::string(HEADRACE_SOURCE_DIR) +
                           "/tests/golden/data/tokenizer/" + name + ".json";
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return ordered_json::parse(file);
}

const GoldenTexts& ReadGoldenTexts() {
  static const GoldenTexts* const kTexts = [] {
    const ordered_json file = ReadGolden("texts");
    auto* texts = new GoldenTexts();
    texts->texts = file["texts"].get<std::vector<std::string>>();
    for (const ordered_json& entry : file["repeated"]) {
      std::string text;
      for (int i = 0; i < entry[1].get<int>(); ++i) {
        text += entry[0].get<std::string>();
      }
      texts->repeated.push_back(std::move(text));
    }
    return texts;
  }();
  return *kTexts;
}

ordered_json RunLengths(const std::vector<int32_t>& ids) {
  ordered_json runs = ordered_json::array();
  for (const int32_t id : ids) {
    if (!runs.empty() && runs.back()[0] == id) {
      runs.back()[1] = runs.back()[1].get<int>() + 1;
    } else {
      runs.push_back(ordered_json::array({id, 1}));
    }
  }
  const size_t size = runs.size();
  if (size < 40) return runs;
  const auto slice = [&runs](size_t begin, size_t end) {
    return ordered_json(
        ordered_json::array_t(runs.begin() + static_cast<std::ptrdiff_t>(begin),
                              runs.begin() + static_cast<std::ptrdiff_t>(end)));
  };
  for (size_t period = 2; period <= 6; ++period) {
    bool repeats = true;
    for (size_t i = 0; i + period < size && repeats; ++i) {
      repeats = runs[i] == runs[i + period];
    }
    if (repeats) return {{"period", slice(0, period)}, {"runs", size}};
  }
  return {{"head", slice(0, 12)},
          {"tail", slice(size - 12, size)},
          {"runs", size},
          {"ids", ids.size()}};
}

void ExpectMatchesGolden(const Tokenizer& tokenizer,
                         const ordered_json& golden) {
  const GoldenTexts& texts = ReadGoldenTexts();
  ASSERT_EQ(golden["ids"].size(), texts.texts.size());
  for (size_t i = 0; i < texts.texts.size(); ++i) {
    const ordered_json& ids = golden["ids"][i];
    if (ids.is_null()) continue;
    const std::string shown = absl::Utf8SafeCHexEscape(texts.texts[i]);
    EXPECT_EQ(ordered_json(tokenizer.Encode(texts.texts[i], {})), ids) << shown;
    const auto special = golden["special"].find(std::to_string(i));
    EXPECT_EQ(
        ordered_json(tokenizer.Encode(texts.texts[i], {.parse_special = true})),
        special == golden["special"].end() ? ids : *special)
        << shown << " with special tokens";
  }
  for (size_t i = 0; i < texts.repeated.size(); ++i) {
    EXPECT_EQ(RunLengths(tokenizer.Encode(texts.repeated[i], {})),
              golden["repeated"][i])
        << "run " << i;
  }
  ExpectDecodes(tokenizer, golden["decoded"]);
}

std::unique_ptr<Tokenizer> MakeHuggingFace(const ordered_json& metadata) {
  auto tokenizer = CreateTokenizer(metadata, TokenizerFormat::kHuggingFace);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::unique_ptr<Tokenizer> MakeGoldenTokenizer(const std::string& name) {
  return MakeHuggingFace({{"tokenizer", ReadGolden(name + ".tokenizer")}});
}

std::unique_ptr<Tokenizer> MakeGguf(const ordered_json& metadata) {
  auto tokenizer = CreateTokenizer(metadata, TokenizerFormat::kGguf);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

ordered_json ToGguf(const ordered_json& file, std::string_view pre) {
  std::vector<std::string> tokens(file["model"]["vocab"].size());
  std::vector<int> types(tokens.size(), 1);
  for (const auto& [piece, id] : file["model"]["vocab"].items()) {
    tokens.at(id.get<size_t>()) = piece;
  }
  for (const ordered_json& added : file["added_tokens"]) {
    const auto id = added["id"].get<size_t>();
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      types.resize(id + 1);
    }
    tokens[id] = added["content"];
    types[id] = added["special"].get<bool>() ? 3 : 4;
  }
  ordered_json merges = ordered_json::array();
  for (const ordered_json& merge : file["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " +
                                             merge[1].get<std::string>());
  }
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", merges}};
}

}  // namespace headrace
