// The pre-tokenizers that GGUF files name (tokenizer.ggml.pre). One more is
// one more line in the table of pre_tokenizer_table.cc.
#ifndef HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_TABLE_H_
#define HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_TABLE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace headrace {

// GPT-2's own, also what tokenizer.json's ByteLevel cuts with.
// Source: openai/gpt-2, src/encoder.py.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+)"
    R"(|\s+(?!\S)|\s+)";

struct NamedPreTokenizer {
  std::vector<std::unique_ptr<NormalizerStep>> normalizer;
  std::vector<std::unique_ptr<PreTokenizerStep>> steps;
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file does not say
};

// Errors: UNIMPLEMENTED naming `name` when the table does not have it: without
// the right one, ids would differ on some texts only.
absl::StatusOr<NamedPreTokenizer> MakeNamedPreTokenizer(std::string_view name);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_TABLE_H_
