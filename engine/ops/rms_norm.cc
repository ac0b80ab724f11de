#include "engine/ops/rms_norm.h"

#include "engine/ops/kernels/rms_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

float RmsNormRow(const RmsNormInputs& inputs, int64_t row, float* dst) {
  const auto first = row * static_cast<int64_t>(inputs.weight.size());
  const float* src = inputs.src + first;
  const float* statistics =
      inputs.statistics == nullptr ? src : inputs.statistics + first;
  return kernels::RmsNormRow(src, statistics, inputs.weight, inputs.eps, dst);
}

void RmsNorm(ThreadTeam& team, const RmsNormInputs& inputs, float* dst,
             float* scale) {
  const int64_t width = static_cast<int64_t>(inputs.weight.size());
  ForEachRow(team, inputs.num_rows, width,
             [&](int64_t row, int /*thread_index*/) {
               const float divisor = RmsNormRow(inputs, row, dst + row * width);
               if (scale != nullptr) scale[row] = divisor;
             });
}

}  // namespace headrace
