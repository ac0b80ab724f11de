// Makes a tokenizer from what a model's files say. One more file format is
// one function here and one line in the table of tokenizer_factory.cc.
#ifndef HEADRACE_ENGINE_TOKENIZER_TOKENIZER_FACTORY_H_
#define HEADRACE_ENGINE_TOKENIZER_TOKENIZER_FACTORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace headrace {

// What wrote the metadata; as WeightFormat, which is not known here.
enum class TokenizerFormat : uint8_t { kGguf, kHuggingFace, kLlama2c };

// `metadata` as WeightSource::metadata() has it. Null when it holds no
// tokenizer.
//
// Errors: UNIMPLEMENTED naming what is not supported; DATA_LOSS naming the key
// that is missing, of the wrong type or contradicts the rest.
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizer(
    const nlohmann::ordered_json& metadata, TokenizerFormat format);

// tokenizer.ggml.*: models "gpt2" (byte-level BPE) and "llama"
// (SentencePiece's BPE).
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromGguf(
    const nlohmann::ordered_json& metadata);

// {"tokenizer": tokenizer.json, "tokenizer_config", "config",
// "generation_config"}, each of the last three when there is one.
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromHuggingFace(
    const nlohmann::ordered_json& metadata);

// {"tokenizer": {"tokens": [Latin-1 texts], "scores": [...]}}.
absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromLlama2c(
    const nlohmann::ordered_json& metadata);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_TOKENIZER_FACTORY_H_
