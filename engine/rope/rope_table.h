// cos and sin of one position: what a row's q and k are rotated by. Computed
// once per step for the rows of that step, whatever RoPE each of them has.
#ifndef HEADRACE_ENGINE_ROPE_ROPE_TABLE_H_
#define HEADRACE_ENGINE_ROPE_ROPE_TABLE_H_

#include <cstdint>
#include <span>

#include "engine/rope/rope_params.h"

namespace headrace {

// Fills the row of `position` (>= 0).
//
//   cos, sin: [inv_freqs.size()]; attention_factor is multiplied in
//
// The angle position * inv_freq, its cosine and sine are float64 and rounded
// once: the error does not grow with the position, as it does where angles are
// float32 (0.04 rad at position 10^6).
void ComputeRopeRow(const EffectiveRope& rope, int64_t position,
                    std::span<float> cos, std::span<float> sin);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_ROPE_TABLE_H_
