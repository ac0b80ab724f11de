// What a rotary encoding is, before any number is computed: the parameters of
// one scaling method as Hugging Face names them, and the frequencies they
// resolve to. Pure data; no tensors.
#ifndef HEADRACE_ENGINE_ROPE_ROPE_PARAMS_H_
#define HEADRACE_ENGINE_ROPE_ROPE_PARAMS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

enum class RopeType : uint8_t {
  kDefault,      // unscaled
  kLinear,       // position interpolation, Chen et al. 2023, arXiv:2306.15595
  kNtk,          // NTK-aware, static: a larger base
  kDynamicNtk,   // NTK-aware by length, frozen when the sequence opens
  kYarn,         // Peng et al. 2023, arXiv:2309.00071
  kLongRope,     // Ding et al. 2024, arXiv:2402.13753
  kLlama3,       // Llama 3.1's smoothed interpolation
  kProportional  // Gemma 4: full-width ladder, partly zero
};

// Positions that any encoding can count: fits the API's uint32 and int32.
inline constexpr int64_t kMaxRopePositions = 2147483647;

// "default", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3",
// "proportional": Hugging Face's rope_type ("ntk" is vLLM's word).
std::string_view RopeTypeName(RopeType type);
// Also takes the words of requests: "none", "dynamic_ntk".
std::optional<RopeType> RopeTypeFromName(std::string_view name);

// Which lanes of a head form a pair.
enum class RopePairing : uint8_t {
  kHalfSplit,    // (i, i + rotary_dim/2): Hugging Face Llama, GPT-NeoX, GGML
                 // "NEOX"
  kInterleaved,  // (2i, 2i+1): the paper, GPT-J, llama2.c, GGML "NORM"
};

// Parameters of a rotary encoding. Unset optionals take the method's default
// when resolved (transformers 4.57, modeling_rope_utils.py).
struct RopeParams {
  RopeType type = RopeType::kDefault;
  double rope_theta = 10000.0;  // > 1
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // even, 2 <= rotary_dim <= head_dim
  int64_t max_position_embeddings = 0;
  // The trained length that a scaled model was extended from; unset:
  // max_position_embeddings.
  std::optional<int64_t> original_max_position_embeddings;
  std::optional<double> factor;  // >= 1
  std::optional<double> attention_factor;
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  std::optional<bool> truncate;
  std::optional<double> low_freq_factor;
  std::optional<double> high_freq_factor;
  std::optional<double> partial_rotary_factor;  // kProportional only
  std::vector<double> short_factor;  // kLongRope: rotary_dim / 2 values > 0
  std::vector<double> long_factor;
  // Divisors of each frequency stored in the weights file (GGUF rope_freqs):
  // rotary_dim / 2 values, or empty. They replace the llama3 formula.
  std::vector<double> stored_divisors;

  bool operator==(const RopeParams&) const = default;
};

// A rotary encoding ready to use: everything a sequence needs, frozen.
struct EffectiveRope {
  RopeParams params;  // every default filled in
  RopePairing pairing = RopePairing::kHalfSplit;
  // Radians per position, one per pair, float64. Size rotary_dim / 2
  // (head_dim / 2 for kProportional).
  std::vector<double> inv_freqs;
  // Multiplies both cos and sin.
  double attention_factor = 1.0;
  // Positions that this encoding serves.
  int64_t context_length = 0;
  // Stable hash of all that changes a rotated key: keys the prefix cache.
  uint64_t hash = 0;
};

// Checks `params` and computes the frequencies.
//
//   context_length: positions the sequence may use; what dynamic NTK and
//                   LongRoPE are frozen at. 0: the method's own length
//                   (factor * original for linear, ntk, dynamic, yarn; else
//                   max_position_embeddings).
//
// Fields that the method does not use are ignored, and unset in the result.
//
// Errors: INVALID_ARGUMENT naming every bad field, its value and the limit.
absl::StatusOr<EffectiveRope> ResolveRope(const RopeParams& params,
                                          RopePairing pairing,
                                          int64_t context_length);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_ROPE_PARAMS_H_
