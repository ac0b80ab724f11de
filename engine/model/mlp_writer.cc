#include "engine/model/mlp_writer.h"

#include <array>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/activation.h"
#include "engine/ops/rms_norm.h"

namespace headrace {

MlpWriter::MlpWriter(int64_t intermediate_size, NormDescription norm,
                     Activation activation)
    : intermediate_size_(intermediate_size),
      norm_(std::move(norm)),
      activation_(activation) {}

absl::StatusOr<std::unique_ptr<MlpWriter>> MlpWriter::Create(
    OpsContext& ops, const ModelConfig& config,
    const MlpDescription& description, Numerics numerics) {
  std::unique_ptr<MlpWriter> writer(new MlpWriter(
      config.intermediate_size, description.norm, description.activation));
  ASSIGN_OR_RETURN(
      writer->gate_up_proj_,
      LinearWeights::Pack(ops,
                          std::array{description.gate_proj, description.up_proj},
                          numerics));
  ASSIGN_OR_RETURN(
      writer->down_proj_,
      LinearWeights::Pack(ops, std::array{description.down_proj}, numerics));
  return writer;
}

void MlpWriter::Compute(StepContext& step, const ResidualBus& bus,
                        float* write) const {
  const int64_t num_rows = bus.num_rows();
  StepBuffers& buffers = step.buffers;
  RmsNorm(step.ops.team(),
          {.src = bus.rows(),
           .num_rows = num_rows,
           .weight = norm_.weight,
           .eps = norm_.eps},
          buffers.normed.data(), /*scale=*/nullptr);

  // [num_rows, 2 * intermediate_size]: gate, then up.
  float* gate_up = buffers.gate_up.data();
  Linear(step.ops, gate_up_proj_, buffers.normed.data(), num_rows, gate_up,
         2 * intermediate_size_);
  Activate(step.ops.team(), activation_,
           {.gate = gate_up,
            .up = gate_up + intermediate_size_,
            .num_rows = num_rows,
            .width = intermediate_size_,
            .row_stride = 2 * intermediate_size_},
           buffers.act.data());
  Linear(step.ops, down_proj_, buffers.act.data(), num_rows, write,
         bus.hidden_size());
}

}  // namespace headrace
