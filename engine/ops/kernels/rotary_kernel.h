// The rotation of one head, vectorised; see engine/ops/rotary.h.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_ROTARY_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_ROTARY_KERNEL_H_

#include <cstdint>

namespace headrace::kernels {

// head: [2 * num_pairs]; cos, sin: [num_pairs].
void RotateHalfSplit(float* head, const float* cos, const float* sin,
                     int64_t num_pairs);
void RotateInterleaved(float* head, const float* cos, const float* sin,
                       int64_t num_pairs);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ROTARY_KERNEL_H_
