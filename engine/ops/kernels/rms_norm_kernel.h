// One row of RmsNorm, vectorised; see engine/ops/rms_norm.h for the order.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_

#include <span>

namespace headrace::kernels {

// src, statistics and dst: [weight.size()]; any may be the same. Returns what
// the row is divided by, which depends on `statistics`.
float RmsNormRow(const float* src, const float* statistics,
                 std::span<const float> weight, double eps, float* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_
