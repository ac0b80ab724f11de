// What a softmax under way makes of the scores of a tile.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SOFTMAX_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SOFTMAX_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SOFTMAX_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cfloat>
#include <cstdint>

#include "engine/ops/kernels/activation_math-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

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

constexpr int kTileVectors = static_cast<int>(kLinesPerTile) * kLineVectors;

// A row of a tile while it is in registers.
struct TileRow {
  KeyRange keys;  // that the row sees
  Vector p[kTileVectors];

  bool masked() const { return keys.begin > 0 || keys.end < kKeysPerTile; }
  bool SeesLine(int line) const {
    return line * kLine < keys.end && (line + 1) * kLine > keys.begin;
  }
  HWY_INLINE Vector ZeroIfMasked(int c, Vector x) const {
    return hn::IfThenElseZero(VisibleLanes(keys, c), x);
  }
};

// Turns the scores of a row into exponentials relative to its new maximum, 0
// where masked, brings its sums up to it, and returns the factor that does the
// same for what was added up before.
HWY_INLINE float ExponentiateRow(const float* scores, TileRow& row, float* sums,
                                 float& row_max) {
  const Floats d;
  const bool masked = row.masked();
  Vector(&s)[kTileVectors] = row.p;
  Vector tile_max = hn::Set(d, -FLT_MAX);
  for (int c = 0; c < kTileVectors; ++c) {
    s[c] = hn::Load(d, scores + c * kLanes);
    if (masked) {
      s[c] =
          hn::IfThenElse(VisibleLanes(row.keys, c), s[c], hn::Set(d, -FLT_MAX));
    }
    tile_max = hn::Max(tile_max, s[c]);
  }
  const float max = std::max(row_max, hn::ReduceMax(d, tile_max));
  for (int c = 0; c < kTileVectors; ++c) {
    s[c] = ExpNonPositive(d, hn::Sub(s[c], hn::Set(d, max)));
    if (masked) s[c] = row.ZeroIfMasked(c, s[c]);
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

// As above, of every row that sees a key of the tile; the others keep all. `Kv`
// keeps the exponentials as the weights of the values.
template <class Kv>
HWY_INLINE void ExponentiateTile(const Kv& kv, const AttentionRows& rows,
                                 const Tile& tile, TileScores scores,
                                 float* sums, float* max) {
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    TileRow tile_row = {.keys = VisibleKeys(rows, tile, row / rows.num_heads)};
    if (tile_row.keys.empty()) {
      scores.factors[row] = 1.0f;
      kv.WeighNothing(row, scores);
      continue;
    }
    scores.factors[row] =
        ExponentiateRow(scores.scores + row * kKeysPerTile, tile_row,
                        sums + row * kSumLanes, max[row]);
    kv.WeighValues(tile, row, tile_row, scores);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
