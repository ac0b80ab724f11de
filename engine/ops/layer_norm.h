// Layer normalisation of rows.
#ifndef HEADRACE_ENGINE_OPS_LAYER_NORM_H_
#define HEADRACE_ENGINE_OPS_LAYER_NORM_H_

#include <cstdint>
#include <span>

#include "engine/base/thread_team.h"

namespace headrace {

struct LayerNormInputs {
  const float* src = nullptr;  // [num_rows, width], dense
  int64_t num_rows = 0;
  std::span<const float> weight;  // [width]
  std::span<const float> bias;    // [width], or empty: none
  double eps = 0;
};

// dst = ((src - m) * s) * weight + bias with the mean m of each row and
// s = 1 / sqrt(mean((src - m)^2) + eps): the biased variance.
//
//   dst:   [num_rows, width], dense; may be src
//   scale: [num_rows], receives sqrt(mean((src - m)^2) + eps), what a row is
//          divided by (TransformerLens's hook_scale); may be null
//
// Order: both sums in 16 partial sums by index mod 16 (the second as chains of
// fused multiply-adds), added by SumOfLanes(); m, s and scale in float64,
// rounded once; then difference, product, product and sum, each rounded.
// Source: Ba et al. 2016, arXiv:1607.06450, eq. 4.
void LayerNorm(ThreadTeam& team, const LayerNormInputs& inputs, float* dst,
               float* scale);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_LAYER_NORM_H_
