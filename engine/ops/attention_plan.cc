#include "engine/ops/attention_plan.h"

#include <algorithm>

namespace headrace {
namespace {

using kernels::AttentionRows;
using kernels::kKeysPerPart;
using kernels::kMaxAttentionRows;

// A unit is split when it alone is more than this share of a thread's work.
constexpr double kSplitShare = 0.25;

constexpr int64_t kStateAlignment = 16;  // floats in 64 bytes

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What the unit costs, in keys times rows.
double CostOf(const AttentionUnit& unit) {
  return static_cast<double>(unit.rows.num_rows()) *
         static_cast<double>(
             std::min(unit.rows.first_position + unit.rows.num_tokens,
                      unit.rows.window + unit.rows.num_tokens));
}

// `num_tokens` tokens of the sequence, from its row `token` on.
AttentionUnit UnitOf(const AttentionInputs& inputs,
                     const AttentionSequence& sequence, int64_t token,
                     int64_t num_tokens) {
  const int64_t first_position = sequence.first_position + token;
  const int64_t end = first_position + num_tokens;
  const int64_t window = std::min(inputs.sliding_window.value_or(end), end);
  const int64_t begin = std::max<int64_t>(0, first_position - window + 1);
  const int64_t first_part = begin / kKeysPerPart;
  return {.rows = {.q_token_stride = inputs.q_row_stride,
                   .num_tokens = num_tokens,
                   .scale = inputs.scale,
                   .first_position = first_position,
                   .window = window,
                   .block_table = sequence.block_table.data(),
                   .kv = inputs.kv,
                   .layout = inputs.layout},
          .dst_row = sequence.first_row + token,
          .first_part = first_part,
          .num_parts = (end - 1) / kKeysPerPart - first_part + 1};
}

}  // namespace

int64_t AttentionStateFloats(int64_t num_rows, int64_t width) {
  return 2 * RoundUp(num_rows, kStateAlignment) + num_rows * width;
}

kernels::AttentionState AttentionStateAt(float* memory, int64_t num_rows) {
  const int64_t padded = RoundUp(num_rows, kStateAlignment);
  return {.max = memory, .sum = memory + padded, .out = memory + 2 * padded};
}

void AttentionPlan::Build(const AttentionInputs& inputs, int num_threads,
                          int64_t num_partials) {
  units.clear();
  tasks.clear();
  for (const AttentionSequence& sequence : inputs.sequences) {
    AddSequence(inputs, sequence);
  }
  AddTasks(num_threads, num_partials);
}

void AttentionPlan::AddSequence(const AttentionInputs& inputs,
                                const AttentionSequence& sequence) {
  const int64_t group =
      inputs.num_attention_heads / inputs.layout.num_key_value_heads;
  const int64_t unit_heads = std::min(group, kMaxAttentionRows);
  const int64_t unit_tokens = kMaxAttentionRows / unit_heads;
  for (int64_t token = 0; token < sequence.num_rows; token += unit_tokens) {
    AttentionUnit unit =
        UnitOf(inputs, sequence, token,
               std::min(unit_tokens, sequence.num_rows - token));
    AttentionRows& rows = unit.rows;
    for (int64_t kv_head = 0; kv_head < inputs.layout.num_key_value_heads;
         ++kv_head) {
      rows.kv_head = kv_head;
      for (int64_t head = 0; head < group; head += unit_heads) {
        unit.first_head = kv_head * group + head;
        rows.num_heads = std::min(unit_heads, group - head);
        rows.q = inputs.q + unit.dst_row * inputs.q_row_stride +
                 unit.first_head * inputs.layout.head_dim;
        units.push_back(unit);
      }
    }
  }
}

void AttentionPlan::AddTasks(int num_threads, int64_t num_partials) {
  double total_cost = 0;
  for (const AttentionUnit& unit : units) total_cost += CostOf(unit);
  const double most = kSplitShare * total_cost / num_threads;
  int64_t used = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    AttentionUnit& unit = units[i];
    const int64_t floats =
        unit.num_parts *
        AttentionStateFloats(unit.rows.num_rows(), unit.rows.width());
    const bool split = num_threads > 1 && unit.num_parts > 1 &&
                       CostOf(unit) > most && used + floats <= num_partials;
    if (split) {
      unit.partials_offset = used;
      used += floats;
    }
    const int64_t num_tasks = split ? unit.num_parts : 1;
    for (int64_t part = 0; part < num_tasks; ++part) {
      tasks.push_back({.unit = static_cast<int64_t>(i), .part = part});
    }
  }
}

}  // namespace headrace
