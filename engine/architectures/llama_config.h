// The Llama family's dimensions and constants, read from each format's own
// metadata into Hugging Face's names.
#ifndef HEADRACE_ENGINE_ARCHITECTURES_LLAMA_CONFIG_H_
#define HEADRACE_ENGINE_ARCHITECTURES_LLAMA_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/weights/weight_source.h"

namespace headrace {

struct LlamaConfig {
  ModelConfig config;
  // What the file says of the head: unset where it says nothing.
  std::optional<bool> tie_word_embeddings;
  std::vector<std::string> warnings;
};

// Errors are DATA_LOSS, naming the key.
absl::StatusOr<LlamaConfig> ReadLlamaConfig(const WeightSource& source);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ARCHITECTURES_LLAMA_CONFIG_H_
