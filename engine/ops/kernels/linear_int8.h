// Fast-mode products of int8 rows, each with one scale, with a panel of weights
// whose outputs have one scale each. Sums are integers, so their order is free.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_INT8_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_INT8_H_

#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

namespace headrace::kernels {

// dst[r, c] = float(Σ_k a[r, k] * q[c, k]) * (scale[c] * src_scales[r])
struct Int8Product {
  Panel panel;                        // of a type with row_scale
  const uint8_t* src = nullptr;       // [num_rows, panel.in], a + 128
  const float* src_scales = nullptr;  // [num_rows]
  int64_t num_rows = 0;
  float* dst = nullptr;  // [num_rows, ld_dst], 64 columns are written
  int64_t ld_dst = 0;
  bool add = false;  // to dst, rounded once more
};
void MultiplyPanelInt8(const Int8Product& product);

// The same from sums of (a + 128) * q that wrap: [num_rows, 64]. src is not
// read.
void FinishPanelInt8(const Int8Product& product, const int32_t* sums);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LINEAR_INT8_H_
