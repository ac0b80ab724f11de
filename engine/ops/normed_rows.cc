#include "engine/ops/normed_rows.h"

#include <cstdint>
#include <span>

#include "absl/log/check.h"
#include "engine/ops/kernels/quantize_rows.h"
#include "engine/ops/kernels/rms_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     QuantizedRows& dst) {
  const auto width = static_cast<int64_t>(inputs.weight.size());
  CHECK_LE(inputs.weight.size_bytes(), OpsContext::kScratchBytes);
  const int64_t row_groups = width / kGroupSize;
  kernels::QuantizedGroup* groups = dst.Begin(inputs.num_rows, width);
  ForEachRow(context.team(), inputs.num_rows, width,
             [&](int64_t row, int thread_index) {
               auto* normed = reinterpret_cast<float*>(
                   context.scratch(thread_index).data());
               RmsNormRow(inputs, row, normed);
               kernels::QuantizeRows(normed, 1, row_groups,
                                     groups + row * row_groups, row_groups);
             });
}

}  // namespace headrace
