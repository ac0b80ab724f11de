#include "engine/ops/normed_rows.h"

#include <cstdint>
#include <span>
#include <vector>

#include "engine/ops/kernels/quantize_rows.h"
#include "engine/ops/kernels/rms_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     QuantizedRows& dst) {
  const auto width = static_cast<int64_t>(inputs.weight.size());
  // Wider rows than any model's get memory of their own.
  const bool fits = inputs.weight.size_bytes() <= OpsContext::kScratchBytes;
  const int64_t row_groups = width / kGroupSize;
  kernels::QuantizedGroup* groups = dst.Begin(inputs.num_rows, width);
  ForEachRow(context.team(), inputs.num_rows, width,
             [&](int64_t row, int thread_index) {
               std::vector<float> wide(fits ? 0 : inputs.weight.size());
               auto* normed = fits ? reinterpret_cast<float*>(
                                         context.scratch(thread_index).data())
                                   : wide.data();
               RmsNormRow(inputs, row, normed);
               kernels::QuantizeRows(normed, 1, row_groups,
                                     groups + row * row_groups, row_groups);
             });
}

}  // namespace headrace
