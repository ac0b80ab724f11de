// The goldens of tests/golden/data/tokenizer (tests/golden/tokenizer makes
// them), and tokenizers made from them.
#ifndef HEADRACE_TESTS_ENGINE_TOKENIZER_GOLDEN_FILES_H_
#define HEADRACE_TESTS_ENGINE_TOKENIZER_GOLDEN_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace headrace {

// Dies when there is no such file.
nlohmann::ordered_json ReadGolden(const std::string& name);

struct GoldenTexts {
  std::vector<std::string> texts;
  std::vector<std::string> repeated;
};
const GoldenTexts& ReadGoldenTexts();

// Ids as the goldens write long runs: run lengths, shortened when there are
// many of them.
nlohmann::ordered_json RunLengths(const std::vector<int32_t>& ids);

// Fails the test where `tokenizer` and `golden` differ: ids of all texts with
// and without special tokens recognised, of the long runs, and decodings.
void ExpectMatchesGolden(const Tokenizer& tokenizer,
                         const nlohmann::ordered_json& golden);

// "gpt2" for gpt2.tokenizer.json, alone or with other files of a folder.
std::unique_ptr<Tokenizer> MakeGoldenTokenizer(const std::string& name);
std::unique_ptr<Tokenizer> MakeHuggingFace(
    const nlohmann::ordered_json& metadata);

std::unique_ptr<Tokenizer> MakeGguf(const nlohmann::ordered_json& metadata);

// The metadata of a GGUF file with the vocabulary and merges of a byte-level
// tokenizer.json, under the pre-tokenizer `pre`.
nlohmann::ordered_json ToGguf(const nlohmann::ordered_json& file,
                              std::string_view pre);

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_TOKENIZER_GOLDEN_FILES_H_
