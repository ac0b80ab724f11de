// RoPE parameters out of a Hugging Face config.json, in any of the forms that
// transformers has written: `rope_scaling` (up to 4.x) or `rope_parameters`
// (from 5), `type` or `rope_type`, partial rotation under three names.
#ifndef HEADRACE_ENGINE_ROPE_PARSE_HF_H_
#define HEADRACE_ENGINE_ROPE_PARSE_HF_H_

#include "absl/status/statusor.h"
#include "engine/rope/parsed_rope.h"
#include "nlohmann/json.hpp"

namespace headrace {

// What the configuration class of an architecture assumes when config.json
// says nothing.
struct HfRopeDefaults {
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
};

// Precedence, as in transformers 5.24, modeling_rope_utils.py: a non-empty
// `rope_scaling` replaces `rope_parameters`; keys of that object win over keys
// of `config`, and those over `defaults`; but a top-level
// `original_max_position_embeddings` wins over the object's (Phi-3). A null is
// an absent key. The head's width is `head_dim` when that is set, else
// hidden_size / num_attention_heads.
//
// An object nested by layer type is accepted when all its entries agree.
//
// Errors: INVALID_ARGUMENT naming the key by its path
// ("rope_scaling.factor"), its value and what is wanted. An unknown type is an
// error, never the default.
absl::StatusOr<ParsedRope> RopeParamsFromHfConfig(
    const nlohmann::ordered_json& config, const HfRopeDefaults& defaults = {});

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_PARSE_HF_H_
