// What an architecture says of its decoder: dimensions, where each weight is,
// and what each block writes on the bus. Built by engine/architectures, read
// once by Decoder::Create.
#ifndef HEADRACE_ENGINE_MODEL_DECODER_DESCRIPTION_H_
#define HEADRACE_ENGINE_MODEL_DECODER_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/ops/activation.h"
#include "engine/position/additive_position.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// Root mean square norm that a sublayer reads the bus through.
struct NormDescription {
  std::vector<float> weight;  // [hidden_size]
  double eps = 1e-5;
};

// How queries and keys of one layer learn of their positions.
enum class HeadPosition : uint8_t {
  kNone,    // NoPE
  kRotary,  // the sequence's EffectiveRope
};

// Matrices are [out, in]. Query head h uses key-value head
// h / (num_attention_heads / num_key_value_heads).
struct AttentionDescription {
  NormDescription norm;
  TensorView q_proj;  // [num_attention_heads * head_dim, hidden_size]
  TensorView k_proj;  // [num_key_value_heads * head_dim, hidden_size]
  TensorView v_proj;  // [num_key_value_heads * head_dim, hidden_size]
  TensorView o_proj;  // [hidden_size, num_attention_heads * head_dim]
  HeadPosition position = HeadPosition::kRotary;
};

// down(act(gate x) * up x).
struct MlpDescription {
  NormDescription norm;
  TensorView gate_proj;  // [intermediate_size, hidden_size]
  TensorView up_proj;    // [intermediate_size, hidden_size]
  TensorView down_proj;  // [hidden_size, intermediate_size]
  Activation activation = Activation::kSilu;
};

struct LayerDescription {
  AttentionDescription attention;
  MlpDescription mlp;
};

struct DecoderDescription {
  ModelConfig config;
  TensorView embed_tokens;  // [vocab_size, hidden_size]
  TensorView lm_head;       // [vocab_size, hidden_size]; may be embed_tokens
  AdditivePosition additive_position;
  std::vector<LayerDescription> layers;
  NormDescription final_norm;
  std::vector<std::string> warnings;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_DECODER_DESCRIPTION_H_
