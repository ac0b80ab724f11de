// Scores of rows against the keys of a tile, and what a softmax makes of them.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <cfloat>
#include <cstdint>

#include "engine/ops/kernels/activation_math-inl.h"
#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

struct ScoreBlock {
  const float* q;            // [rows, head_dim]
  const float* const* keys;  // one per line
  int64_t head_dim;
  float* scores;  // [rows, kKeysPerTile]
};

// scores[r][j] = chain over d ascending of q[r][d] * k[d][j], from 0.
template <int kRows, int kLines>
HWY_INLINE void ComputeScores(const ScoreBlock& block) {
  constexpr int kColumns = kLines * kLineVectors;
  const Floats d;
  Vector sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  const float* keys[kLines];
  for (int l = 0; l < kLines; ++l) keys[l] = block.keys[l];
  const float* q = block.q;
  for (int64_t i = 0; i < block.head_dim; ++i) {
    Vector k[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      k[c] = hn::LoadU(
          d, keys[c / kLineVectors] + i * kLine + c % kLineVectors * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vector x = hn::Set(d, q[r * block.head_dim + i]);
      for (int c = 0; c < kColumns; ++c) {
        sums[r][c] = hn::MulAdd(x, k[c], sums[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      hn::Store(sums[r][c], d, block.scores + r * kKeysPerTile + c * kLanes);
    }
  }
}

// One or kBlockLines lines.
template <int kRows>
HWY_INLINE void ChooseScores(int rows, int lines, const ScoreBlock& block) {
  if (rows < kRows) {
    if constexpr (kRows > 1) ChooseScores<kRows - 1>(rows, lines, block);
  } else if (lines == 1) {
    ComputeScores<kRows, 1>(block);
  } else {
    ComputeScores<kRows, kBlockLines>(block);
  }
}

// Scores of every row for every line of which a row beside it sees a key.
HWY_INLINE void ScoreTile(const AttentionRows& rows, const Tile& tile,
                          const float* q, float* scores) {
  const int64_t num_rows = rows.num_rows();
  // Memory likes to be read line after line.
  const int most_lines = IsStreaming(rows) ? 1 : kBlockLines;
  for (int64_t row = 0; row < num_rows; row += kBlockRows) {
    const RowRange range = {row, std::min(row + kBlockRows, num_rows)};
    const KeyRange keys = UnitedKeys(rows, tile, range);
    const int64_t end_line = (keys.end + kLine - 1) / kLine;
    for (int64_t line = keys.begin / kLine; line < end_line;) {
      const ScoreBlock block = {
          .q = q + row * rows.head_dim(),
          .keys = tile.keys + line,
          .head_dim = rows.head_dim(),
          .scores = scores + row * kKeysPerTile + line * kLine};
      const int lines = end_line - line >= most_lines ? most_lines : 1;
      ChooseScores<kBlockRows>(range.size(), lines, block);
      line += lines;
    }
  }
}

HWY_INLINE float ExpOf(float x) {
  const Floats d;
  return hn::GetLane(ExpNonPositive(d, hn::Set(d, x)));
}

// Lanes of vector `c` of a tile that `keys` takes in.
HWY_INLINE hn::Mask<Floats> VisibleLanes(KeyRange keys, int c) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const auto key = hn::Iota(di, c * kLanes);
  return hn::RebindMask(
      d, hn::And(hn::Ge(key, hn::Set(di, static_cast<int32_t>(keys.begin))),
                 hn::Lt(key, hn::Set(di, static_cast<int32_t>(keys.end)))));
}

// Turns the scores of a row into exponentials relative to its new maximum, 0
// where masked, brings its sums up to it, and returns the factor that does the
// same for what was added up before.
HWY_INLINE float ExponentiateRow(KeyRange keys, float* scores, float* sums,
                                 float& row_max) {
  constexpr int kColumns = static_cast<int>(kLinesPerTile) * kLineVectors;
  const Floats d;
  const bool masked = keys.begin > 0 || keys.end < kKeysPerTile;
  Vector s[kColumns];
  Vector tile_max = hn::Set(d, -FLT_MAX);
  for (int c = 0; c < kColumns; ++c) {
    s[c] = hn::Load(d, scores + c * kLanes);
    if (masked) {
      s[c] = hn::IfThenElse(VisibleLanes(keys, c), s[c], hn::Set(d, -FLT_MAX));
    }
    tile_max = hn::Max(tile_max, s[c]);
  }
  const float max = std::max(row_max, hn::ReduceMax(d, tile_max));
  for (int c = 0; c < kColumns; ++c) {
    s[c] = ExpNonPositive(d, hn::Sub(s[c], hn::Set(d, max)));
    if (masked) s[c] = hn::IfThenElseZero(VisibleLanes(keys, c), s[c]);
    hn::Store(s[c], d, scores + c * kLanes);
  }
  // Most maxima stay, and exp(0) is 1.
  const float factor = max == row_max ? 1.0f : ExpOf(row_max - max);
  row_max = max;
  for (int v = 0; v < kLineVectors; ++v) {
    const Vector low = hn::Add(s[v], s[v + kLineVectors]);
    const Vector high =
        hn::Add(s[v + 2 * kLineVectors], s[v + 3 * kLineVectors]);
    const Vector sum = hn::Load(d, sums + v * kLanes);
    hn::Store(hn::MulAdd(sum, hn::Set(d, factor), hn::Add(low, high)), d,
              sums + v * kLanes);
  }
  return factor;
}

// As above, of every row that sees a key of the tile; the others keep all.
HWY_INLINE void ExponentiateTile(const AttentionRows& rows, const Tile& tile,
                                 TileScores scores, float* sums, float* max) {
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    const KeyRange keys = VisibleKeys(rows, tile, row / rows.num_heads);
    scores.factors[row] =
        keys.empty() ? 1.0f
                     : ExponentiateRow(keys, scores.scores + row * kKeysPerTile,
                                       sums + row * kSumLanes, max[row]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
