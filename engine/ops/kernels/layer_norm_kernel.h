// One row of LayerNorm, vectorised; see engine/ops/layer_norm.h for the order.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LAYER_NORM_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LAYER_NORM_KERNEL_H_

#include <span>

namespace headrace::kernels {

// src and dst: [weight.size()]; dst may be src; bias: as many, or empty.
// Returns what the row is divided by.
float LayerNormRow(const float* src, std::span<const float> weight,
                   std::span<const float> bias, double eps, float* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LAYER_NORM_KERNEL_H_
