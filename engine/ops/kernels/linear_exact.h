// Exact-mode products of float32 rows with one panel of weights.
// The order of the sums is in engine/ops/README.md.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_H_

#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

namespace headrace::kernels {

// One block of k: dst[r, c] = (accumulate ? dst[r, c] : 0 is not added) +
// chain over k in [k_begin, k_begin + k_count) of src[r, k] * W[c, k].
struct BlockProduct {
  Panel panel;
  int64_t k_begin = 0;
  int64_t k_count = 0;         // whole groups if the panel is quantised
  const float* src = nullptr;  // [num_rows, ld_src], at the panel's k = 0
  int64_t ld_src = 0;
  int64_t num_rows = 0;
  float* dst = nullptr;  // [num_rows, ld_dst], 64 columns are written
  int64_t ld_dst = 0;
  bool accumulate = false;
};
void MultiplyBlock(const BlockProduct& product);

// dst[r, c] = the whole sum over the panel's k: its blocks in order.
//   src: [num_rows, panel.in]   dst: [num_rows, ld_dst], 64 columns
void MultiplyPanel(const Panel& panel, const float* src, int64_t num_rows,
                   float* dst, int64_t ld_dst);

// block[k - k_begin, c] = W[c, k] for k_count values of k.
//   block: [k_count, 64]; whole groups if the panel is quantised
void DequantizeBlock(const Panel& panel, int64_t k_begin, int64_t k_count,
                     float* block);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_H_
