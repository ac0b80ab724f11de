#include "engine/model/sublayer_norm.h"

#include "engine/ops/normed_rows.h"
#include "engine/ops/rms_norm.h"

namespace headrace {

void NormedRows::Multiply(OpsContext& ops, const LinearWeights& weights,
                          LinearOutput dst) const {
  if (quantized != nullptr) {
    Linear(ops, weights, *quantized, dst);
  } else if (int8 != nullptr) {
    Linear(ops, weights, *int8, dst);
  } else {
    Linear(ops, weights, rows, num_rows, dst);
  }
}

NormedRows SublayerNorm::Apply(StepContext& step, const ResidualBus& bus,
                               const LinearWeights& weights) const {
  const RmsNormInputs inputs = {.src = bus.rows(),
                                .num_rows = bus.num_rows(),
                                .weight = norm_.weight,
                                .eps = norm_.eps};
  const bool watched =
      step.Wanted(scale_hook_, layer_) || step.Wanted(out_hook_, layer_);
  const RowForm form = weights.row_form();
  float* normed = step.buffers.normed.data();
  if (form == RowForm::kFloat || watched) {
    RmsNorm(step.ops.team(), inputs, normed, step.buffers.scale.data());
    step.Tap(scale_hook_, layer_, step.buffers.scale.data(), 1);
    step.Tap(out_hook_, layer_, normed, bus.hidden_size());
  }
  const auto quantize = [&](auto& rows) {
    if (watched) {
      rows.Quantize(step.ops.team(), normed, bus.num_rows(), bus.hidden_size());
    } else {
      RmsNormQuantize(step.ops, inputs, rows);
    }
    return &rows;
  };
  switch (form) {
    case RowForm::kFloat:
      break;
    case RowForm::kQuantizedGroups:
      return {.num_rows = bus.num_rows(),
              .quantized = quantize(step.ops.quantized_rows())};
    case RowForm::kInt8Rows:
      return {.num_rows = bus.num_rows(),
              .int8 = quantize(step.ops.int8_rows())};
  }
  return {.num_rows = bus.num_rows(), .rows = normed};
}

}  // namespace headrace
