#include "engine/tokenizer/pre_tokenizer_table.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace headrace {

namespace {

constexpr std::string_view kDigit = R"(\p{N})";

// meta-llama/Meta-Llama-3-8B, tokenizer.json.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Qwen/Qwen2-7B, tokenizer.json: Llama 3's with digits alone.
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// mistralai/Mistral-Nemo-Base-2407, tokenizer.json.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Files without a name, or with this one, were made before names existed;
// this is what llama.cpp (src/llama-vocab.cpp) cuts them with.
constexpr std::string_view kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kDefaultWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kDefaultNumbers = R"(\p{N}+)";
constexpr std::string_view kDefaultThrees = R"([0-9][0-9][0-9])";

// What else comes with a name.
constexpr uint8_t kNfc = 1;
constexpr uint8_t kIgnoreMerges = 2;
constexpr uint8_t kAddsBos = 4;

// Up to four patterns, each applied to what the one before left, all with the
// behaviour Isolated.
struct Line {
  std::string_view name;
  std::string_view patterns[4];
  uint8_t traits = 0;
};

constexpr Line kTable[] = {
    {"default",
     {kDefaultPunctuation, kDefaultWords, kDefaultNumbers, kDefaultThrees}},
    {"gpt-2", {kGpt2Pattern}},
    {"gpt2", {kGpt2Pattern}},
    {"phi-2", {kGpt2Pattern}},
    {"mpt", {kGpt2Pattern}, kNfc},
    {"olmo", {kGpt2Pattern}, kNfc},
    {"smollm", {kDigit, kGpt2Pattern}},
    {"starcoder", {kDigit, kGpt2Pattern}},
    {"refact", {kDigit, kGpt2Pattern}},
    {"command-r", {kDigit, kGpt2Pattern}},
    {"codeshell", {kDigit, kGpt2Pattern}},
    {"llama-bpe", {kLlama3}, kIgnoreMerges | kAddsBos},
    {"llama3", {kLlama3}, kIgnoreMerges | kAddsBos},
    {"llama-v3", {kLlama3}, kIgnoreMerges | kAddsBos},
    {"dbrx", {kLlama3}},
    {"smaug-bpe", {kLlama3}},
    {"qwen2", {kQwen2}, kNfc},
    {"deepseek-r1-qwen", {kQwen2}},
    {"stablelm2", {kQwen2}},
    {"tekken", {kTekken}, kIgnoreMerges},
};

}  // namespace

absl::StatusOr<NamedPreTokenizer> MakeNamedPreTokenizer(std::string_view name) {
  for (const Line& line : kTable) {
    if (line.name != name) continue;
    NamedPreTokenizer made;
    made.ignore_merges = (line.traits & kIgnoreMerges) != 0;
    made.adds_bos = (line.traits & kAddsBos) != 0;
    if ((line.traits & kNfc) != 0) {
      made.normalizer.push_back(MakeUnicodeStep(UnicodeForm::kNfc));
    }
    for (const std::string_view pattern : line.patterns) {
      if (pattern.empty()) break;
      ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
      made.steps.push_back(MakeSplitStep(std::move(regex),
                                         SplitBehavior::kIsolated,
                                         /*invert=*/false));
    }
    return made;
  }
  return absl::UnimplementedError(absl::StrFormat(
      "tokenizer.ggml.pre: the pre-tokenizer \"%s\" is not supported", name));
}

}  // namespace headrace
