// RoPE parameters out of a GGUF file's key-value pairs and its small rope
// tensors, read as llama.cpp reads them.
#ifndef HEADRACE_ENGINE_ROPE_PARSE_GGUF_H_
#define HEADRACE_ENGINE_ROPE_PARSE_GGUF_H_

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/rope/parsed_rope.h"
#include "nlohmann/json.hpp"

namespace headrace {

// Contents of a file's rope tensors, [rotary_dim / 2] each; empty: the file
// does not have it.
struct GgufRopeTensors {
  std::span<const float> freqs;          // rope_freqs.weight: divisors
  std::span<const float> factors_long;   // rope_factors_long.weight
  std::span<const float> factors_short;  // rope_factors_short.weight
};

// Reads `{arch}.rope.*`, `{arch}.context_length` and the head's width
// (`{arch}.attention.key_length`, else embedding_length / head_count).
//
// Without `{arch}.rope.scaling.type` a file is linear with factor 1, or
// LongRoPE when it has the factor tensors. A `rope_freqs` tensor that is not
// all ones makes it kLlama3 with stored_divisors; a linear or YaRN factor
// applies on top, as in ggml's rope.
//
// Errors: INVALID_ARGUMENT naming the key or tensor, its value and what is
// wanted.
absl::StatusOr<ParsedRope> RopeParamsFromGguf(const nlohmann::ordered_json& kvs,
                                              std::string_view arch,
                                              const GgufRopeTensors& tensors);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_PARSE_GGUF_H_
