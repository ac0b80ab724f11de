#include "engine/model/attention_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/model/head_channels.h"
#include "engine/ops/attention.h"
#include "engine/ops/attention_scores.h"
#include "engine/ops/kv_rows.h"
#include "engine/ops/rotary.h"

namespace headrace {
namespace {

std::vector<AttentionSequence> Sequences(const StepRows& rows) {
  std::vector<AttentionSequence> sequences;
  sequences.reserve(rows.sequences.size());
  for (const StepSequence& sequence : rows.sequences) {
    sequences.push_back({.first_row = sequence.first_row,
                         .num_rows = sequence.num_rows,
                         .first_position = sequence.first_position,
                         .block_table = sequence.block_table});
  }
  return sequences;
}

class ScoresOnDemand final : public AttentionView {
 public:
  ScoresOnDemand(ThreadTeam& team, const AttentionInputs& inputs)
      : team_(team), inputs_(inputs) {}

  Keys KeysOf(int32_t step_row) const override {
    const AttentionSequence& sequence = SequenceOf(step_row);
    const VisibleKeys keys = headrace::KeysOf(
        inputs_, sequence.first_position + step_row - sequence.first_row);
    return {.first = keys.first, .count = keys.count};
  }
  void Scores(int32_t step_row, int32_t head,
              std::span<float> dst) const override {
    const AttentionSequence& sequence = SequenceOf(step_row);
    AttentionScores(inputs_, sequence, step_row - sequence.first_row, head,
                    dst.data());
  }
  void ForEach(int64_t count,
               absl::FunctionRef<void(int64_t)> work) const override {
    team_.ParallelFor(count, [&](int64_t i, int) { work(i); });
  }

 private:
  // Sequences stand in the order of their rows.
  const AttentionSequence& SequenceOf(int32_t step_row) const {
    return *std::prev(std::upper_bound(
        inputs_.sequences.begin(), inputs_.sequences.end(), step_row,
        [](int64_t row, const AttentionSequence& sequence) {
          return row < sequence.first_row;
        }));
  }

  ThreadTeam& team_;
  const AttentionInputs& inputs_;
};

}  // namespace

AttentionWriter::AttentionWriter(const ModelConfig& config, int32_t layer,
                                 const AttentionDescription& description,
                                 LinearWeights qkv_proj, LinearWeights o_proj)
    : config_(config),
      layer_(layer),
      norm_(layer, description.norm, HookPoint::kAttnNormScale,
            HookPoint::kAttnNormOut),
      position_(description.position),
      qkv_proj_(std::move(qkv_proj)),
      o_proj_(std::move(o_proj)) {}

absl::StatusOr<std::unique_ptr<AttentionWriter>> AttentionWriter::Create(
    OpsContext& ops, const ModelConfig& config, int32_t layer,
    const AttentionDescription& description, Numerics numerics) {
  ASSIGN_OR_RETURN(
      LinearWeights qkv_proj,
      LinearWeights::Pack(ops,
                          std::array{description.q_proj, description.k_proj,
                                     description.v_proj},
                          numerics));
  ASSIGN_OR_RETURN(
      LinearWeights o_proj,
      LinearWeights::Pack(ops, std::array{description.o_proj}, numerics));
  return std::unique_ptr<AttentionWriter>(new AttentionWriter(
      config, layer, description, std::move(qkv_proj), std::move(o_proj)));
}

void AttentionWriter::StoreKv(StepContext& step, const ResidualBus& bus) const {
  float* qkv = step.buffers.qkv.data();  // [num_rows, q | k | v]
  norm_.Apply(step, bus, qkv_proj_)
      .Multiply(step.ops, qkv_proj_, {.rows = qkv, .stride = qkv_width()});
  TapHeads(step, HookPoint::kQ, qkv, config_.num_attention_heads);
  TapHeads(step, HookPoint::kK, qkv + q_width(), config_.num_key_value_heads);
  step.Tap(HookPoint::kV, layer_, qkv + q_width() + kv_width(), kv_width(),
           qkv_width());
  if (position_ == HeadPosition::kRotary) {
    Rotate(step, qkv);
    TapHeads(step, HookPoint::kQRotated, qkv, config_.num_attention_heads);
    TapHeads(step, HookPoint::kKRotated, qkv + q_width(),
             config_.num_key_value_heads);
  }
  StoreRows(step, qkv);
}

void AttentionWriter::Compute(StepContext& step, const ResidualBus& bus,
                              LinearOutput write) const {
  StoreKv(step, bus);
  StepBuffers& buffers = step.buffers;
  const std::vector<AttentionSequence> sequences = Sequences(step.rows);
  const AttentionInputs inputs = Inputs(step, buffers.qkv.data(), sequences);
  if (step.Wanted(HookPoint::kAttnScores, layer_) ||
      step.Wanted(HookPoint::kAttnProbs, layer_)) {
    step.rows.observer->OnAttention(layer_,
                                    ScoresOnDemand(step.ops.team(), inputs));
  }
  Attention(step.ops.team(), inputs, step.attention, buffers.z.data(),
            q_width());
  step.Tap(HookPoint::kZ, layer_, buffers.z.data(), q_width());
  Linear(step.ops, o_proj_, buffers.z.data(), bus.num_rows(), write);
}

void AttentionWriter::TapHeads(StepContext& step, HookPoint hook, float* data,
                               int64_t num_heads) const {
  const int64_t width = num_heads * config_.head_dim;
  if (position_ != HeadPosition::kRotary ||
      config_.rope_pairing == RopePairing::kHalfSplit) {
    step.Tap(hook, layer_, data, width, qkv_width());
    return;
  }
  if (!step.Wanted(hook, layer_)) return;
  const HeadRows heads = {.data = data,
                          .num_rows = step.rows.num_rows(),
                          .row_stride = qkv_width(),
                          .num_heads = num_heads,
                          .head_dim = config_.head_dim,
                          .rotary_dim = 2 * step.buffers.rotary.num_pairs()};
  float* shown = step.buffers.shown.data();
  ToHalfSplit(heads, shown);
  step.Tap(hook, layer_, shown, width);
  FromHalfSplit(shown, heads);
}

void AttentionWriter::Rotate(StepContext& step, float* qkv) const {
  const RotaryRows& rotary = step.buffers.rotary;
  ApplyRotary(
      step.ops.team(),
      {.heads = qkv,  // queries, and the keys right after them
       .num_rows = step.rows.num_rows(),
       .num_heads = config_.num_attention_heads + config_.num_key_value_heads,
       .head_dim = config_.head_dim,
       .row_stride = qkv_width(),
       .rotary_dim = 2 * rotary.num_pairs(),
       .cos = rotary.cos(),
       .sin = rotary.sin(),
       .layout = config_.rope_pairing == RopePairing::kHalfSplit
                     ? PairLayout::kHalfSplit
                     : PairLayout::kInterleaved});
}

void AttentionWriter::StoreRows(StepContext& step, const float* qkv) const {
  for (const StepSequence& sequence : step.rows.sequences) {
    const float* row = qkv + sequence.first_row * qkv_width();
    StoreKeysAndValues(step.ops.team(), step.kv.layout(),
                       {.k = row + q_width(),
                        .v = row + q_width() + kv_width(),
                        .k_row_stride = qkv_width(),
                        .v_row_stride = qkv_width(),
                        .num_rows = sequence.num_rows,
                        .first_position = sequence.first_position,
                        .block_table = sequence.block_table},
                       step.kv.layer(layer_));
  }
}

AttentionInputs AttentionWriter::Inputs(
    StepContext& step, const float* qkv,
    std::span<const AttentionSequence> sequences) const {
  return {.q = qkv,
          .q_row_stride = qkv_width(),
          .num_attention_heads = config_.num_attention_heads,
          .scale = static_cast<float>(
              1.0 / std::sqrt(static_cast<double>(config_.head_dim))),
          .sliding_window = config_.sliding_window,
          .sequences = sequences,
          .kv = step.kv.layer(layer_),
          .layout = step.kv.layout()};
}

}  // namespace headrace
