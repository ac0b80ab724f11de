// One row of RmsNorm, vectorised; see engine/ops/rms_norm.h for the order.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_

#include <span>

namespace headrace::kernels {

// src and dst: [weight.size()]; dst may be src. Returns what
// the row is divided by.
float RmsNormRow(const float* src, std::span<const float> weight, double eps,
                 float* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_RMS_NORM_KERNEL_H_
