// A row of floats as int8 with one scale, for the fast mode; see README.md.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_INT8_ROW_H_
#define HEADRACE_ENGINE_OPS_KERNELS_INT8_ROW_H_

#include <cstdint>

namespace headrace::kernels {

// dst[k] = a_k + 128; the row's scale is returned. `width` is a multiple of 32.
float QuantizeInt8Row(const float* src, int64_t width, uint8_t* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_INT8_ROW_H_
