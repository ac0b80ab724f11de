// float32 rows to int8 groups of 32, as engine/ops/README.md specifies.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_

#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

namespace headrace::kernels {

//   src: [num_rows, groups_per_row * 32], dense
//   dst: [num_rows, groups_per_row], dst_stride groups from row to row
void QuantizeRows(const float* src, int64_t num_rows, int64_t groups_per_row,
                  QuantizedGroup* dst, int64_t dst_stride);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_QUANTIZE_ROWS_H_
