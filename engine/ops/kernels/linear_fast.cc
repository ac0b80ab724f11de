#include "engine/ops/kernels/linear_fast.h"

#include "engine/ops/kernels/linear_fast_kernels.h"
#include "engine/tensor/quantized_format.h"

namespace headrace::kernels {

void MultiplyPanelFast(const FastProduct& product) {
  const DType dtype = product.panel.dtype;
  const FastKernel kernel = FormatOf(dtype).has_minimum
                                ? FastKernelWithMinimum(dtype)
                                : FastKernelWithoutMinimum(dtype);
  kernel(product);
}

}  // namespace headrace::kernels
