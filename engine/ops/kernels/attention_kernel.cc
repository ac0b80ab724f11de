// See attention_kernel.h.
#include "engine/ops/kernels/attention_kernel.h"

#include <algorithm>
#include <cfloat>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/attention_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/attention_scores-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "engine/ops/kernels/attention_values-inl.h"
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// All scores first, then all exponentials, then all values, so that keys and
// values are each read from memory once and from the nearest cache thereafter.
HWY_INLINE void AttendTile(const AttentionRows& rows, const Tile& tile,
                           AttentionWorkspace workspace, AttentionState state) {
  const int64_t num_rows = rows.num_rows();
  for (int64_t row = 0; row < num_rows; row += kBlockRows) {
    ScoreRows(rows, tile, {row, std::min(row + kBlockRows, num_rows)},
              workspace);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    const KeyRange keys = VisibleKeys(rows, tile, row / rows.num_heads);
    if (keys.empty()) continue;
    ExponentiateScores(keys, workspace.scores + row * kKeysPerTile,
                       {.max = state.max[row],
                        .sums = workspace.sums + row * kSumLanes,
                        .out = state.out + row * rows.width(),
                        .width = rows.width()});
  }
  for (int64_t row = 0; row < num_rows; row += kBlockRows) {
    AddVisibleValues(rows, tile, {row, std::min(row + kBlockRows, num_rows)},
                     workspace.scores, state.out);
  }
}

void ScaleQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  const int64_t token_floats = rows.num_heads * rows.head_dim();
  for (int64_t token = 0; token < rows.num_tokens; ++token) {
    const float* src = rows.q + token * rows.q_token_stride;
    float* dst = workspace.q + token * token_floats;
    for (int64_t i = 0; i < token_floats; ++i) dst[i] = src[i] * rows.scale;
  }
}

void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state) {
  const int64_t num_rows = rows.num_rows();
  std::fill_n(part_state.max, num_rows, -FLT_MAX);
  std::fill_n(part_state.out, num_rows * rows.width(), 0.0f);
  std::fill_n(workspace.sums, num_rows * kSumLanes, 0.0f);
  const int64_t begin =
      std::max(part * kKeysPerPart, rows.first_position - rows.window + 1);
  const int64_t end = std::min((part + 1) * kKeysPerPart,
                               rows.first_position + rows.num_tokens);
  for (int64_t first_key = begin / kKeysPerTile * kKeysPerTile; first_key < end;
       first_key += kKeysPerTile) {
    const Tile tile = LocateTile(rows, first_key,
                                 {std::max<int64_t>(0, begin - first_key),
                                  std::min(kKeysPerTile, end - first_key)});
    AttendTile(rows, tile, workspace, part_state);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    part_state.sum[row] = SumOfLanes(workspace.sums + row * kSumLanes);
  }
}

void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  const Floats d;
  const int64_t width = rows.width();
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    if (part_state.sum[row] == 0.0f) continue;
    const float* part = part_state.out + row * width;
    float* out = total.out + row * width;
    if (total.sum[row] == 0.0f) {
      total.max[row] = part_state.max[row];
      total.sum[row] = part_state.sum[row];
      std::copy_n(part, width, out);
      continue;
    }
    const float max = std::max(total.max[row], part_state.max[row]);
    const Vector old_factor = hn::Set(d, ExpOf(total.max[row] - max));
    const Vector part_factor = hn::Set(d, ExpOf(part_state.max[row] - max));
    total.max[row] = max;
    total.sum[row] = hn::GetLane(
        hn::MulAdd(hn::Set(d, part_state.sum[row]), part_factor,
                   hn::Mul(hn::Set(d, total.sum[row]), old_factor)));
    for (int64_t i = 0; i < width; i += kLanes) {
      const Vector old = hn::Mul(hn::Load(d, out + i), old_factor);
      hn::Store(hn::MulAdd(hn::Load(d, part + i), part_factor, old), d,
                out + i);
    }
  }
}

void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    const float* out = total.out + row * rows.width();
    float* head = dst + row / rows.num_heads * dst_token_stride +
                  row % rows.num_heads * rows.head_dim();
    const float factor = 1.0f / total.sum[row];
    for (int64_t i = 0; i < rows.head_dim(); ++i) head[i] = out[i] * factor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ScaleQueries);
HWY_EXPORT(AttendPart);
HWY_EXPORT(MergePart);
HWY_EXPORT(FinishRows);

void ScaleQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  HWY_DYNAMIC_DISPATCH(ScaleQueries)(rows, workspace);
}
void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state) {
  HWY_DYNAMIC_DISPATCH(AttendPart)(rows, part, workspace, part_state);
}
void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  HWY_DYNAMIC_DISPATCH(MergePart)(rows, part_state, total);
}
void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  HWY_DYNAMIC_DISPATCH(FinishRows)(rows, total, dst, dst_token_stride);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
