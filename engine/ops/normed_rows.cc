#include "engine/ops/normed_rows.h"

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/ops/kernels/quantize_rows.h"
#include "engine/ops/kernels/rms_norm_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

namespace {

// Calls quantize(row, normed) for each row.
void ForEachNormedRow(
    OpsContext& context, const RmsNormInputs& inputs,
    absl::FunctionRef<void(int64_t row, const float* normed)> quantize) {
  // Wider rows than any model's get memory of their own.
  const bool fits = inputs.weight.size_bytes() <= OpsContext::kScratchBytes;
  ForEachRow(context.team(), inputs.num_rows,
             static_cast<int64_t>(inputs.weight.size()),
             [&](int64_t row, int thread_index) {
               std::vector<float> wide(fits ? 0 : inputs.weight.size());
               auto* normed = fits ? reinterpret_cast<float*>(
                                         context.scratch(thread_index).data())
                                   : wide.data();
               RmsNormRow(inputs, row, normed);
               quantize(row, normed);
             });
}

}  // namespace

void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     QuantizedRows& dst) {
  const auto width = static_cast<int64_t>(inputs.weight.size());
  const int64_t row_groups = width / kGroupSize;
  kernels::QuantizedGroup* groups = dst.Begin(inputs.num_rows, width);
  ForEachNormedRow(context, inputs, [&](int64_t row, const float* normed) {
    kernels::QuantizeRows(normed, 1, row_groups, groups + row * row_groups,
                          row_groups);
  });
}

void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     Int8Rows& dst) {
  dst.Begin(inputs.num_rows, static_cast<int64_t>(inputs.weight.size()));
  ForEachNormedRow(context, inputs, [&](int64_t row, const float* normed) {
    dst.QuantizeRow(row, normed);
  });
}

}  // namespace headrace
