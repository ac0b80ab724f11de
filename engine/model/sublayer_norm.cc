#include "engine/model/sublayer_norm.h"

#include "engine/ops/normed_rows.h"
#include "engine/ops/rms_norm.h"

namespace headrace {

void NormedRows::Multiply(OpsContext& ops, const LinearWeights& weights,
                          LinearOutput dst) const {
  if (quantized != nullptr) {
    Linear(ops, weights, *quantized, dst);
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
  QuantizedRows& quantized = step.ops.quantized_rows();
  const bool watched =
      step.Wanted(scale_hook_, layer_) || step.Wanted(out_hook_, layer_);
  if (weights.takes_quantized_rows() && !watched) {
    RmsNormQuantize(step.ops, inputs, quantized);
    return {.num_rows = bus.num_rows(), .quantized = &quantized};
  }
  float* normed = step.buffers.normed.data();
  RmsNorm(step.ops.team(), inputs, normed, step.buffers.scale.data());
  step.Tap(scale_hook_, layer_, step.buffers.scale.data(), 1);
  step.Tap(out_hook_, layer_, normed, bus.hidden_size());
  if (!weights.takes_quantized_rows()) {
    return {.num_rows = bus.num_rows(), .rows = normed};
  }
  quantized.Quantize(step.ops.team(), normed, bus.num_rows(),
                     bus.hidden_size());
  return {.num_rows = bus.num_rows(), .quantized = &quantized};
}

}  // namespace headrace
