// Root mean square normalisation of rows.
#ifndef HEADRACE_ENGINE_OPS_RMS_NORM_H_
#define HEADRACE_ENGINE_OPS_RMS_NORM_H_

#include <cstdint>
#include <span>

#include "engine/base/thread_team.h"

namespace headrace {

struct RmsNormInputs {
  const float* src = nullptr;  // [num_rows, width], dense
  // [num_rows, width], dense: whose mean of squares is taken; null: src.
  const float* statistics = nullptr;
  int64_t num_rows = 0;
  std::span<const float> weight;  // [width]
  double eps = 0;
};

// dst = (src * s) * weight, s = 1 / sqrt(mean(src^2) + eps) of each row.
//
//   dst:   [num_rows, width], dense; may be src
//   scale: [num_rows], receives sqrt(mean(src^2) + eps), what a row is divided
//          by (TransformerLens's hook_scale); may be null
//
// Order: 16 partial sums of squares by index mod 16, each a chain of fused
// multiply-adds, added by SumOfLanes(); s and scale are computed in float64
// and rounded once; then two products, each rounded. Equal in every bit on
// every instruction set with fused multiply-add. Source: Zhang and Sennrich
// 2019, arXiv:1910.07467, eq. 4; the order of the products is that of
// transformers 4.57 modeling_llama.py.
void RmsNorm(ThreadTeam& team, const RmsNormInputs& inputs, float* dst,
             float* scale);

// One row of it, on this thread; returns its scale.
//
//   dst: [width]
float RmsNormRow(const RmsNormInputs& inputs, int64_t row, float* dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_RMS_NORM_H_
