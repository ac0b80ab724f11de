#include "engine/ops/kernels/linear_exact.h"

#include <algorithm>

#include "engine/ops/kernels/linear_exact_kernels.h"
#include "engine/tensor/quantized_format.h"

namespace headrace::kernels {
namespace {

ExactKernels KernelsOf(DType dtype) {
  if (!IsQuantized(dtype)) return ExactKernelsOfFloats(dtype);
  return FormatOf(dtype).has_minimum ? ExactKernelsWithMinimum(dtype)
                                     : ExactKernelsWithoutMinimum(dtype);
}

}  // namespace

void MultiplyBlock(const BlockProduct& product) {
  KernelsOf(product.panel.dtype).multiply(product);
}

void MultiplyPanel(const Panel& panel, const float* src, int64_t num_rows,
                   float* dst, int64_t ld_dst) {
  for (int64_t k = 0; k < panel.in; k += kBlockSize) {
    MultiplyBlock({.panel = panel,
                   .k_begin = k,
                   .k_count = std::min(kBlockSize, panel.in - k),
                   .src = src,
                   .ld_src = panel.in,
                   .num_rows = num_rows,
                   .dst = dst,
                   .ld_dst = ld_dst,
                   .accumulate = k > 0});
  }
}

void DequantizeBlock(const Panel& panel, int64_t k_begin, int64_t k_count,
                     float* block) {
  KernelsOf(panel.dtype).dequantize(panel, k_begin, k_count, block);
}

}  // namespace headrace::kernels
