// The loops of linear_fast.h by type, for the instruction set that was chosen.
// Each function has a file of its own, so that they compile side by side.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_KERNELS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_KERNELS_H_

#include "engine/ops/kernels/linear_fast.h"
#include "engine/tensor/dtype.h"

namespace headrace::kernels {

using FastKernel = void (*)(const FastProduct& product);

// Null for other types than those of the name.
FastKernel FastKernelWithMinimum(DType dtype);
FastKernel FastKernelWithoutMinimum(DType dtype);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_KERNELS_H_
