// The two products of a gated MLP with what comes of them, while it is in the
// cache.
#ifndef HEADRACE_ENGINE_OPS_GATED_LINEAR_H_
#define HEADRACE_ENGINE_OPS_GATED_LINEAR_H_

#include <cstdint>

#include "engine/ops/activation.h"
#include "engine/ops/linear.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/quantized_rows.h"

namespace headrace {

// Whether GatedLinear() takes these weights: the gate's outputs, then as many
// of `up`, all quantised and computed in the fast mode, and both whole panels.
bool TakesGatedLinear(const LinearWeights& gate_up);

// From so many rows on it is faster. Fewer read weights at the pace of memory,
// best in the order in which these lie.
inline constexpr int64_t kGatedLinearRows = 16;

// dst = rows of activation(src · gateᵀ) * (src · upᵀ), quantised. The same bits
// as Linear(), Activate() and Quantize() one after the other, of which only the
// last result is kept.
//
//   src: [num_rows, in_features]
//   dst: gets num_rows of out_features / 2 values, without their source
void GatedLinear(OpsContext& context, const LinearWeights& gate_up,
                 Activation activation, const QuantizedRows& src,
                 QuantizedRows& dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_GATED_LINEAR_H_
