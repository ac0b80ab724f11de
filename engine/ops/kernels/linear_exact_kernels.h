// The loops of linear_exact.h by type, for the instruction set that was chosen.
// Each function has a file of its own, so that they compile side by side.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_KERNELS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_KERNELS_H_

#include <cstdint>

#include "engine/ops/kernels/linear_exact.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/tensor/dtype.h"

namespace headrace::kernels {

struct ExactKernels {
  void (*multiply)(const BlockProduct& product) = nullptr;
  void (*dequantize)(const Panel& panel, int64_t k_begin, int64_t k_count,
                     float* block) = nullptr;
};

// Null for other types than those of the name: floats, quantised types with a
// minimum, quantised types without.
ExactKernels ExactKernelsOfFloats(DType dtype);
ExactKernels ExactKernelsWithMinimum(DType dtype);
ExactKernels ExactKernelsWithoutMinimum(DType dtype);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_KERNELS_H_
