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
#include <iterator>

#include "engine/ops/kernels/activation_math-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "engine/ops/kernels/transposed_reduce-inl.h"
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

// Of every row, brought up to date by each tile.
struct SoftmaxState {
  float* max;   // [rows]
  float* sums;  // [rows, kSumLanes]
};

// The greatest of a row's scores in every lane.
template <bool kMasked>
HWY_INLINE Vector GreatestScores(const float* scores, KeyRange keys) {
  const Floats d;
  Vector most = hn::Set(d, -FLT_MAX);
  for (int c = 0; c < kTileVectors; ++c) {
    Vector s = hn::Load(d, scores + c * kLanes);
    if constexpr (kMasked) {
      s = hn::IfThenElse(VisibleLanes(keys, c), s, hn::Set(d, -FLT_MAX));
    }
    most = hn::Max(most, s);
  }
  return most;
}

// Raises the maxima of up to kLanes rows to their scores, and finds the factors
// that bring what was added up before up to them. Rows are taken together so
// that they do not wait for one another's chains of dependent operations.
template <bool kMasked>
HWY_INLINE void RaiseMaxima(const AttentionRows& rows, const Tile& tile,
                            RowRange range, TileScores scores, float* max) {
  const Floats d;
  HWY_ALIGN float most[kLanes * kLanes];
  std::fill(most + range.size() * kLanes, std::end(most), 0.0f);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const KeyRange keys = kMasked ? KeysOfRow(rows, tile, row) : KeyRange();
    hn::Store(GreatestScores<kMasked>(scores.scores + row * kKeysPerTile, keys),
              d, most + (row - range.begin) * kLanes);
  }
  const auto count = static_cast<size_t>(range.size());
  const Vector old = hn::LoadN(d, max + range.begin, count);
  const Vector raised = hn::Max(old, ReduceEach(d, most, Maximum()));
  hn::StoreN(raised, d, max + range.begin, count);
  // Most maxima stay, and exp(0) is 1.
  hn::StoreN(ExpNonPositive(d, hn::Sub(old, raised)), d,
             scores.factors + range.begin, count);
}

// Turns the scores of a row into exponentials relative to its maximum, 0 where
// masked, adds them to its sums, and leaves what `kv` makes of them.
template <bool kMasked, class Kv>
HWY_INLINE void ExponentiateRow(const Kv& kv, const Tile& tile, int64_t row,
                                TileScores scores, SoftmaxState state) {
  const Floats d;
  const KeyRange keys = kMasked ? KeysOfRow(kv.rows, tile, row) : KeyRange();
  float* weights = scores.scores + row * kKeysPerTile;
  if (kMasked && keys.empty()) {
    std::fill_n(weights, kKeysPerTile, 0.0f);
    return;
  }
  const Vector max = hn::Set(d, state.max[row]);
  Vector p[kTileVectors];
  for (int c = 0; c < kTileVectors; ++c) {
    const Vector s = hn::Load(d, weights + c * kLanes);
    p[c] = ExpNonPositive(d, hn::Sub(s, max));
    if constexpr (kMasked) {
      p[c] = hn::IfThenElseZero(VisibleLanes(keys, c), p[c]);
    }
  }
  for (int v = 0; v < kLineVectors; ++v) {
    const Vector low = hn::Add(p[v], p[v + kLineVectors]);
    const Vector high =
        hn::Add(p[v + 2 * kLineVectors], p[v + 3 * kLineVectors]);
    float* sums = state.sums + row * kSumLanes + v * kLanes;
    hn::Store(hn::MulAdd(hn::Load(d, sums), hn::Set(d, scores.factors[row]),
                         hn::Add(low, high)),
              d, sums);
  }
  for (int c = 0; c < kTileVectors; ++c) {
    Vector weight = kv.template Weigh<kMasked>(tile, keys, c, p[c]);
    // What masked values bring along may be anything.
    if constexpr (kMasked) {
      weight = hn::IfThenElseZero(VisibleLanes(keys, c), weight);
    }
    hn::Store(weight, d, weights + c * kLanes);
  }
}

template <bool kMasked, class Kv>
HWY_INLINE void ExponentiateRows(const Kv& kv, const Tile& tile,
                                 TileScores scores, SoftmaxState state) {
  const int64_t num_rows = kv.rows.num_rows();
  for (int64_t first = 0; first < num_rows; first += kLanes) {
    const RowRange range = {first, std::min<int64_t>(first + kLanes, num_rows)};
    RaiseMaxima<kMasked>(kv.rows, tile, range, scores, state.max);
    for (int64_t row = range.begin; row < range.end; ++row) {
      ExponentiateRow<kMasked>(kv, tile, row, scores, state);
    }
    kv.FinishWeights(range, scores);
  }
}

// Turns the scores of a tile into the weights of its values.
template <class Kv>
HWY_INLINE void ExponentiateTile(const Kv& kv, const Tile& tile,
                                 TileScores scores, SoftmaxState state) {
  const KeyRange common = CommonKeys(kv.rows, tile, {0, kv.rows.num_rows()});
  if (common.begin == 0 && common.end == kKeysPerTile) {
    ExponentiateRows<false>(kv, tile, scores, state);
  } else {
    ExponentiateRows<true>(kv, tile, scores, state);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
