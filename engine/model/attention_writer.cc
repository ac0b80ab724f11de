#include "engine/model/attention_writer.h"

#include <array>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/ops/attention.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/rotary.h"

namespace headrace {

AttentionWriter::AttentionWriter(const ModelConfig& config, int32_t layer,
                                 NormDescription norm, HeadPosition position)
    : config_(config),
      layer_(layer),
      norm_(std::move(norm)),
      position_(position) {}

absl::StatusOr<std::unique_ptr<AttentionWriter>> AttentionWriter::Create(
    OpsContext& ops, const ModelConfig& config, int32_t layer,
    const AttentionDescription& description, Numerics numerics) {
  std::unique_ptr<AttentionWriter> writer(new AttentionWriter(
      config, layer, description.norm, description.position));
  ASSIGN_OR_RETURN(
      writer->qkv_proj_,
      LinearWeights::Pack(ops,
                          std::array{description.q_proj, description.k_proj,
                                     description.v_proj},
                          numerics));
  ASSIGN_OR_RETURN(
      writer->o_proj_,
      LinearWeights::Pack(ops, std::array{description.o_proj}, numerics));
  return writer;
}

void AttentionWriter::Compute(StepContext& step, const ResidualBus& bus,
                              float* write) const {
  const int64_t num_rows = bus.num_rows();
  StepBuffers& buffers = step.buffers;
  RmsNorm(step.ops.team(),
          {.src = bus.rows(),
           .num_rows = num_rows,
           .weight = norm_.weight,
           .eps = norm_.eps},
          buffers.normed.data(), /*scale=*/nullptr);
  float* qkv = buffers.qkv.data();  // [num_rows, q | k | v]
  Linear(step.ops, qkv_proj_, buffers.normed.data(), num_rows, qkv,
         qkv_width());
  if (position_ == HeadPosition::kRotary) Rotate(step, qkv);
  StoreKeysAndValues(step, qkv);
  Attend(step, qkv, buffers.z.data());
  Linear(step.ops, o_proj_, buffers.z.data(), num_rows, write,
         bus.hidden_size());
}

void AttentionWriter::Rotate(StepContext& step, float* qkv) const {
  const RotaryRows& rotary = step.buffers.rotary;
  ApplyRotary(step.ops.team(),
              {.heads = qkv,  // queries, and the keys right after them
               .num_rows = step.rows.num_rows(),
               .num_heads =
                   config_.num_attention_heads + config_.num_key_value_heads,
               .head_dim = config_.head_dim,
               .row_stride = qkv_width(),
               .rotary_dim = 2 * rotary.num_pairs(),
               .cos = rotary.cos(),
               .sin = rotary.sin(),
               .layout = config_.rope_pairing == RopePairing::kHalfSplit
                             ? PairLayout::kHalfSplit
                             : PairLayout::kInterleaved});
}

}  // namespace headrace
