#include "engine/ops/attention_scores.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/aligned_buffer.h"
#include "engine/ops/kernels/attention_kernel.h"

namespace headrace {

VisibleKeys KeysOf(const AttentionInputs& inputs, int64_t position) {
  const int64_t count =
      std::min(position + 1, inputs.sliding_window.value_or(position + 1));
  return {.first = position + 1 - count, .count = count};
}

void AttentionScores(const AttentionInputs& inputs,
                     const AttentionSequence& sequence, int64_t row,
                     int64_t head, float* dst) {
  const KvLayout& layout = inputs.layout;
  const int64_t position = sequence.first_position + row;
  const kernels::AttentionRows rows = {
      .q = inputs.q + (sequence.first_row + row) * inputs.q_row_stride +
           head * layout.head_dim,
      .q_token_stride = inputs.q_row_stride,
      .num_tokens = 1,
      .num_heads = 1,
      .scale = inputs.scale,
      .first_position = position,
      .window = KeysOf(inputs, position).count,
      .block_table = sequence.block_table.data(),
      .kv = inputs.kv,
      .layout = layout,
      .kv_head =
          head / (inputs.num_attention_heads / layout.num_key_value_heads)};
  AlignedBuffer<float> floats(
      static_cast<size_t>(layout.width() + kernels::kKeysPerTile + 1));
  AlignedBuffer<int16_t> shorts(static_cast<size_t>(layout.width()));
  const kernels::AttentionWorkspace workspace = {
      .q = floats.data(),
      .scores = floats.data() + layout.width(),
      .integer_q = shorts.data(),
      .q_scales = floats.data() + layout.width() + kernels::kKeysPerTile};
  kernels::PrepareQueries(rows, workspace);
  kernels::ScoreRow(rows, workspace, dst);
}

}  // namespace headrace
