// Goes through the scores of rows against the keys of a tile, in register
// tiles; `Kv` says what a key is: attention_floats-inl.h,
// attention_integers-inl.h.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/attention_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

struct ScoreBlock {
  int64_t row;                   // the first
  const std::byte* const* keys;  // one per line
  float* scores;                 // [rows, kKeysPerTile]
};

// One or kBlockLines lines.
template <class Kv, int kRows>
HWY_INLINE void ChooseScores(const Kv& kv, int rows, int lines,
                             const ScoreBlock& block) {
  if (rows < kRows) {
    if constexpr (kRows > 1) {
      ChooseScores<Kv, kRows - 1>(kv, rows, lines, block);
    }
  } else if (lines == 1) {
    kv.template ComputeScores<kRows, 1>(block);
  } else {
    kv.template ComputeScores<kRows, kBlockLines>(block);
  }
}

// Scores of every row for every line of which a row beside it sees a key.
template <class Kv>
HWY_INLINE void ScoreTile(const Kv& kv, const AttentionRows& rows,
                          const Tile& tile, float* scores) {
  const int64_t num_rows = rows.num_rows();
  // Memory likes to be read line after line.
  const int most_lines = IsStreaming(rows) ? 1 : kBlockLines;
  for (int64_t row = 0; row < num_rows; row += kBlockRows) {
    const RowRange range = {row, std::min(row + kBlockRows, num_rows)};
    const KeyRange keys = UnitedKeys(rows, tile, range);
    const int64_t end_line = (keys.end + kLine - 1) / kLine;
    for (int64_t line = keys.begin / kLine; line < end_line;) {
      const ScoreBlock block = {
          .row = row,
          .keys = tile.keys + line,
          .scores = scores + row * kKeysPerTile + line * kLine};
      const int lines = end_line - line >= most_lines ? most_lines : 1;
      ChooseScores<Kv, kBlockRows>(kv, range.size(), lines, block);
      line += lines;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
