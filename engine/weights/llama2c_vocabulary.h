// The vocabulary files of llama2.c: tok512.bin, tokenizer.bin.
#ifndef HEADRACE_ENGINE_WEIGHTS_LLAMA2C_VOCABULARY_H_
#define HEADRACE_ENGINE_WEIGHTS_LLAMA2C_VOCABULARY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headrace {

// {"tokens": [...], "scores": [...]} of exactly `vocab_size` entries. Tokens
// are byte strings, each byte held as the Latin-1 character of its value.
//
// Errors: DATA_LOSS naming file, token and offset.
// Source: tokenizer.py (export) of karpathy/llama2.c.
absl::StatusOr<nlohmann::ordered_json> ReadLlama2cVocabulary(
    const std::string& path, int64_t vocab_size);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_LLAMA2C_VOCABULARY_H_
