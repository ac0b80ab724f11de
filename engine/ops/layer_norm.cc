#include "engine/ops/layer_norm.h"

#include "engine/ops/kernels/layer_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void LayerNorm(ThreadTeam& team, const LayerNormInputs& inputs, float* dst,
               float* scale) {
  const int64_t width = static_cast<int64_t>(inputs.weight.size());
  ForEachRow(
      team, inputs.num_rows, width, [&](int64_t row, int /*thread_index*/) {
        const float divisor =
            kernels::LayerNormRow(inputs.src + row * width, inputs.weight,
                                  inputs.bias, inputs.eps, dst + row * width);
        if (scale != nullptr) scale[row] = divisor;
      });
}

}  // namespace headrace
