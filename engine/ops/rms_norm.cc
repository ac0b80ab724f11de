#include "engine/ops/rms_norm.h"

#include "engine/ops/kernels/rms_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void RmsNorm(ThreadTeam& team, const RmsNormInputs& inputs, float* dst,
             float* scale) {
  const int64_t width = static_cast<int64_t>(inputs.weight.size());
  ForEachRow(team, inputs.num_rows, width, [&](int64_t row) {
    const float* src = inputs.src + row * width;
    const float* statistics =
        inputs.statistics == nullptr ? src : inputs.statistics + row * width;
    const float divisor = kernels::RmsNormRow(src, statistics, inputs.weight,
                                              inputs.eps, dst + row * width);
    if (scale != nullptr) scale[row] = divisor;
  });
}

}  // namespace headrace
