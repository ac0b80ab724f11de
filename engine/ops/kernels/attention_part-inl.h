// Attention of some rows to the keys of one part, whatever keys and values are.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_PART_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_PART_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_PART_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_PART_INL_H_
#endif

#include <algorithm>
#include <cfloat>
#include <cstdint>

#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/attention_scores-inl.h"
#include "engine/ops/kernels/attention_softmax-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
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

// Of a tile whose first row is number `row` of the workspace.
HWY_INLINE TileScores TileScoresAt(const AttentionWorkspace& workspace,
                                   int64_t row) {
  return {.scores = workspace.scores + row * kKeysPerTile,
          .factors = workspace.factors + row,
          .weights = workspace.weights + row * kKeysPerTile,
          .weight_scales = workspace.weight_scales + row};
}

// For few rows: all scores, then all exponentials, then all values, so that
// keys and values are each read in one long run.
template <class Kv>
HWY_INLINE void AttendStreaming(const Kv& kv, const TileRun& run,
                                AttentionState state) {
  const AttentionRows& rows = kv.rows;
  const auto scores_of = [&](int64_t tile) {
    return TileScoresAt(kv.workspace, tile * rows.num_rows());
  };
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ScoreTile(kv, rows, run.tiles[t], scores_of(t).scores);
  }
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ExponentiateTile(kv, run.tiles[t], scores_of(t),
                     {.max = state.max, .sums = kv.workspace.sums});
  }
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    kv.AddTileValues(run.tiles[t], scores_of(t), state.out);
  }
}

// For many rows: tile by tile, so that keys and values are read from memory
// once and from the nearest cache thereafter.
template <class Kv>
HWY_INLINE void AttendTileByTile(const Kv& kv, const TileRun& run,
                                 AttentionState state) {
  const AttentionRows& rows = kv.rows;
  const TileScores scores = TileScoresAt(kv.workspace, 0);
  for (int64_t t = 0; t < run.num_tiles; ++t) {
    ScoreTile(kv, rows, run.tiles[t], scores.scores);
    ExponentiateTile(kv, run.tiles[t], scores,
                     {.max = state.max, .sums = kv.workspace.sums});
    kv.AddTileValues(run.tiles[t], scores, state.out);
  }
}

template <class Kv>
HWY_INLINE void AttendPartAs(const AttentionRows& rows, int64_t part,
                             AttentionWorkspace workspace,
                             AttentionState part_state) {
  const int64_t num_rows = rows.num_rows();
  std::fill_n(part_state.max, num_rows, -FLT_MAX);
  std::fill_n(part_state.out, num_rows * rows.width(), 0.0f);
  std::fill_n(workspace.sums, num_rows * kSumLanes, 0.0f);
  const int64_t begin =
      std::max(part * kKeysPerPart, rows.first_position - rows.window + 1);
  const int64_t end = std::min((part + 1) * kKeysPerPart,
                               rows.first_position + rows.num_tokens);
  const Kv kv = {.rows = rows, .workspace = workspace};
  const TileRun run = LocateTiles(rows, begin, end);
  if (IsStreaming(rows)) {
    AttendStreaming(kv, run, part_state);
  } else {
    AttendTileByTile(kv, run, part_state);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    part_state.sum[row] = SumOfLanes(workspace.sums + row * kSumLanes);
  }
}

template <class Kv>
HWY_INLINE void ScoreRowAs(const AttentionRows& row,
                           AttentionWorkspace workspace, float* dst) {
  const Kv kv = {.rows = row, .workspace = workspace};
  const int64_t end = row.first_position + 1;
  int64_t key = std::max<int64_t>(0, end - row.window);
  while (key < end) {
    const int64_t first_key = key / kKeysPerTile * kKeysPerTile;
    const KeyRange keys = {key - first_key,
                           std::min(kKeysPerTile, end - first_key)};
    ScoreTile(kv, row, LocateTile(row, first_key, keys), workspace.scores);
    dst = std::copy(workspace.scores + keys.begin, workspace.scores + keys.end,
                    dst);
    key = first_key + keys.end;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
