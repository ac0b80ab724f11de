// float32 rows to int8 groups of 32, as engine/ops/README.md specifies.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_

#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

namespace headrace::kernels {

//   src: [num_groups * 32]   dst: [num_groups]
void QuantizeGroups(const float* src, int64_t num_groups, QuantizedGroup* dst);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_
