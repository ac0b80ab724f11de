// One row of an elementwise non-linearity, vectorised.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_KERNEL_H_

#include <cstdint>

namespace headrace::kernels {

// dst[i] = f(gate[i]) * up[i] for i in [0, n); `up` null: no product. dst may
// be gate or up.
void SiluRow(const float* gate, const float* up, int64_t n, float* dst);
void GeluErfRow(const float* gate, const float* up, int64_t n, float* dst);
void GeluTanhRow(const float* gate, const float* up, int64_t n, float* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_KERNEL_H_
