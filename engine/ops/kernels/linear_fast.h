// Fast-mode products of quantised rows with one panel of quantised weights.
// The order of the sums is in engine/ops/README.md.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_H_

#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

namespace headrace::kernels {

// Memory that MultiplyPanelFast needs to unpack weights, 64-byte aligned.
constexpr size_t kFastScratchBytes = size_t{48} << 10;

// dst[r, c] = Σ_k src[r, k] * W[c, k], groups ascending.
struct FastProduct {
  Panel panel;
  const QuantizedGroup* src = nullptr;  // [num_rows, panel.in / 32]
  int64_t num_rows = 0;
  float* sums = nullptr;  // [num_rows, 64], for what is not finished
  float* dst = nullptr;   // [num_rows, ld_dst], 64 columns are written
  int64_t ld_dst = 0;
  bool add = false;              // to dst, rounded once more
  std::byte* scratch = nullptr;  // kFastScratchBytes
};
void MultiplyPanelFast(const FastProduct& product);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_H_
