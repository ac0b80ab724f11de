#include "engine/model/mlp_writer.h"

#include <array>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/activation.h"
#include "engine/ops/gated_linear.h"

namespace headrace {

MlpWriter::MlpWriter(int32_t layer, const MlpDescription& description,
                     LinearWeights gate_up_proj, LinearWeights down_proj)
    : layer_(layer),
      intermediate_size_(gate_up_proj.out_features() / 2),
      norm_(layer, description.norm, HookPoint::kMlpNormScale,
            HookPoint::kMlpNormOut),
      activation_(description.activation),
      gate_up_proj_(std::move(gate_up_proj)),
      down_proj_(std::move(down_proj)),
      can_fuse_(TakesGatedLinear(gate_up_proj_) &&
                down_proj_.row_form() == RowForm::kQuantizedGroups) {}

absl::StatusOr<std::unique_ptr<MlpWriter>> MlpWriter::Create(
    OpsContext& ops, int32_t layer, const MlpDescription& description,
    Numerics numerics) {
  ASSIGN_OR_RETURN(
      LinearWeights gate_up_proj,
      LinearWeights::Pack(
          ops, std::array{description.gate_proj, description.up_proj},
          numerics));
  ASSIGN_OR_RETURN(
      LinearWeights down_proj,
      LinearWeights::Pack(ops, std::array{description.down_proj}, numerics));
  return std::unique_ptr<MlpWriter>(new MlpWriter(
      layer, description, std::move(gate_up_proj), std::move(down_proj)));
}

void MlpWriter::Compute(StepContext& step, const ResidualBus& bus,
                        LinearOutput write) const {
  const int64_t num_rows = bus.num_rows();
  StepBuffers& buffers = step.buffers;
  const NormedRows normed = norm_.Apply(step, bus, gate_up_proj_);
  const bool watched = step.Wanted(HookPoint::kMlpGate, layer_) ||
                       step.Wanted(HookPoint::kMlpUp, layer_) ||
                       step.Wanted(HookPoint::kMlpAct, layer_);
  if (can_fuse_ && num_rows >= kGatedLinearRows && !watched) {
    GatedLinear(step.ops, gate_up_proj_, activation_, *normed.quantized,
                buffers.quantized_act);
    Linear(step.ops, down_proj_, buffers.quantized_act, write);
    return;
  }
  // [num_rows, 2 * intermediate_size]: gate, then up.
  float* gate_up = buffers.gate_up.data();
  normed.Multiply(step.ops, gate_up_proj_,
                  {.rows = gate_up, .stride = 2 * intermediate_size_});
  step.Tap(HookPoint::kMlpGate, layer_, gate_up, intermediate_size_,
           2 * intermediate_size_);
  step.Tap(HookPoint::kMlpUp, layer_, gate_up + intermediate_size_,
           intermediate_size_, 2 * intermediate_size_);
  Activate(step.ops.team(), activation_,
           {.gate = gate_up,
            .up = gate_up + intermediate_size_,
            .num_rows = num_rows,
            .width = intermediate_size_,
            .row_stride = 2 * intermediate_size_},
           buffers.act.data());
  step.Tap(HookPoint::kMlpAct, layer_, buffers.act.data(), intermediate_size_);
  Linear(step.ops, down_proj_, buffers.act.data(), num_rows, write);
}

}  // namespace headrace
