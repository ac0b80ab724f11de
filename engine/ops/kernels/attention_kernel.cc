// See attention_kernel.h.
#include "engine/ops/kernels/attention_kernel.h"

#include <algorithm>
#include <cfloat>
#include <cstdint>

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

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

// The tiles of a part.
struct TileRun {
  Tile tiles[kTilesPerPart];
  int64_t num_tiles = 0;
};

// Finds the tiles that hold keys [begin, end).
HWY_INLINE TileRun LocateTiles(const AttentionRows& rows, int64_t begin,
                               int64_t end) {
  TileRun run;
  for (int64_t first_key = begin / kKeysPerTile * kKeysPerTile; first_key < end;
       first_key += kKeysPerTile) {
    run.tiles[run.num_tiles++] =
        LocateTile(rows, first_key,
                   {std::max<int64_t>(0, begin - first_key),
                    std::min(kKeysPerTile, end - first_key)});
  }
  return run;
}

// For few rows: all scores, then all exponentials, then all values, so that
// keys and values are each read in one long run.
HWY_INLINE void AttendStreaming(const AttentionRows& rows, const TileRun& run,
                                AttentionWorkspace workspace,
                                AttentionState state) {
  const auto scores_of = [&](int64_t tile) {
    return TileScores{
        .scores = workspace.scores + tile * rows.num_rows() * kKeysPerTile,
        .factors = workspace.factors + tile * rows.num_rows()};
  };
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ScoreTile(rows, run.tiles[t], workspace.q, scores_of(t).scores);
  }
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ExponentiateTile(rows, run.tiles[t], scores_of(t), workspace.sums,
                     state.max);
  }
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    AddTileValues(rows, run.tiles[t], scores_of(t), state.out);
  }
}

// For many rows: tile by tile, so that keys and values are read from memory
// once and from the nearest cache thereafter.
HWY_INLINE void AttendTileByTile(const AttentionRows& rows, const TileRun& run,
                                 AttentionWorkspace workspace,
                                 AttentionState state) {
  const TileScores scores = {.scores = workspace.scores,
                             .factors = workspace.factors};
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ScoreTile(rows, run.tiles[t], workspace.q, scores.scores);
    ExponentiateTile(rows, run.tiles[t], scores, workspace.sums, state.max);
    AddTileValues(rows, run.tiles[t], scores, state.out);
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
  const TileRun run = LocateTiles(rows, begin, end);
  if (IsStreaming(rows)) {
    AttendStreaming(rows, run, workspace, part_state);
  } else {
    AttendTileByTile(rows, run, workspace, part_state);
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
