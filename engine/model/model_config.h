// What a decoder transformer is: dimensions and constants under Hugging Face's
// names, filled in by an architecture from a file's own metadata.
#ifndef HEADRACE_ENGINE_MODEL_MODEL_CONFIG_H_
#define HEADRACE_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/rope/rope_params.h"

namespace headrace {

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // from the file; the id that requests use
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size =
      0;  // rows of the embedding; the tokenizer may be smaller
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  // The file's own rotary encoding; nullopt for a model without one.
  std::optional<RopeParams> rope;
  RopePairing rope_pairing = RopePairing::kHalfSplit;
  // Keys older than this many positions are masked; nullopt: none.
  std::optional<int64_t> sliding_window;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_MODEL_CONFIG_H_
