// Keys and values that are floats, float32 or bfloat16; products in float32.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_FLOATS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_FLOATS_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_FLOATS_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_FLOATS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/attention_scores-inl.h"
#include "engine/ops/kernels/attention_softmax-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// `values` is a float or hwy::bfloat16_t; widening is exact.
template <class T>
HWY_INLINE Vector LoadFloats(const T* values) {
  const auto stored = hn::LoadU(hn::Rebind<T, Floats>(), values);
  if constexpr (sizeof(T) == sizeof(float)) {
    return stored;
  } else {
    return hn::PromoteTo(Floats(), stored);
  }
}

struct ValueBlock {
  const float* p;                  // [rows, kKeysPerTile]
  const std::byte* const* values;  // one per line of keys
  int64_t width;
  int64_t column;  // first value of the block
  KeyRange keys;
  float* out;  // [rows, width]
};

// out[r][c] continues its chain over the keys, ascending: + p[r][j] * v[j][c].
template <class T, int kRows, int kLines>
HWY_INLINE void ComputeValues(const ValueBlock& block) {
  constexpr int kColumns = kLines * kLineVectors;
  const Floats d;
  float* out = block.out + block.column;
  Vector sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] = hn::Load(d, out + r * block.width + c * kLanes);
    }
  }
  for (int64_t begin = block.keys.begin; begin < block.keys.end;) {
    const int64_t line = begin / kLine;
    const int64_t end = std::min(block.keys.end, (line + 1) * kLine);
    const T* values = reinterpret_cast<const T*>(block.values[line]) +
                      block.column + (begin - line * kLine) * block.width;
    for (int64_t key = begin; key < end; ++key) {
      Vector v[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        v[c] = LoadFloats(values + c * kLanes);
      }
      values += block.width;
      for (int r = 0; r < kRows; ++r) {
        const Vector p = hn::Set(d, block.p[r * kKeysPerTile + key]);
        for (int c = 0; c < kColumns; ++c) {
          sums[r][c] = hn::MulAdd(p, v[c], sums[r][c]);
        }
      }
    }
    begin = end;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      hn::Store(sums[r][c], d, out + r * block.width + c * kLanes);
    }
  }
}

// One or kLines lines.
template <class T, int kRows, int kLines>
HWY_INLINE void ChooseValues(int64_t rows, int lines, const ValueBlock& block) {
  if (rows < kRows) {
    if constexpr (kRows > 1) {
      ChooseValues<T, kRows - 1, kLines>(rows, lines, block);
    }
  } else if (lines == 1) {
    ComputeValues<T, kRows, 1>(block);
  } else {
    ComputeValues<T, kRows, kLines>(block);
  }
}

// Adds the values of the block's keys to `rows` rows, in register tiles of
// kRows by kLines. When that takes several passes over the values, they are
// made over one line of keys at a time: memory likes to be read in order.
template <class T, int kRows, int kLines>
HWY_INLINE void AddValueBlocks(int64_t rows, ValueBlock block) {
  const KeyRange keys = block.keys;
  const bool one_pass = rows <= kRows && block.width <= kLines * kLine;
  const int64_t step = one_pass ? kKeysPerTile : kLine;
  for (int64_t begin = keys.begin; begin < keys.end; begin = block.keys.end) {
    block.keys = {begin, std::min(keys.end, (begin / step + 1) * step)};
    for (int64_t row = 0; row < rows; row += kRows) {
      ValueBlock tile = block;
      tile.p += row * kKeysPerTile;
      tile.out += row * block.width;
      while (tile.column < block.width) {
        const bool whole = block.width - tile.column >= kLines * kLine;
        const int lines = whole ? kLines : 1;
        ChooseValues<T, kRows, kLines>(std::min<int64_t>(kRows, rows - row),
                                       lines, tile);
        tile.column += lines * kLine;
      }
    }
  }
}

// Adds the values of `keys`, which every row of the range sees.
template <class T>
HWY_INLINE void AddValues(const AttentionRows& rows, const Tile& tile,
                          RowRange range, KeyRange keys, const float* scores,
                          float* out) {
  if (keys.empty()) return;
  const ValueBlock block = {.p = scores + range.begin * kKeysPerTile,
                            .values = tile.values,
                            .width = rows.width(),
                            .column = 0,
                            .keys = keys,
                            .out = out + range.begin * rows.width()};
  constexpr int64_t kWideWidth = 2 * kBlockLines * kLine;
  if (IsStreaming(rows) && rows.width() >= kWideWidth) {
    // Wide tiles read the values in the order in which they lie.
    AddValueBlocks<T, kBlockRows / 2, 2 * kBlockLines>(range.size(), block);
  } else {
    AddValueBlocks<T, kBlockRows, kBlockLines>(range.size(), block);
  }
}

// As above, of those keys of [begin, end) that each token sees by itself.
template <class T>
HWY_INLINE void AddValuesByToken(const AttentionRows& rows, const Tile& tile,
                                 RowRange range, KeyRange keys,
                                 const float* scores, float* out) {
  for (int64_t begin = range.begin; begin < range.end;) {
    const int64_t token = begin / rows.num_heads;
    const int64_t end = std::min(range.end, (token + 1) * rows.num_heads);
    const KeyRange visible = VisibleKeys(rows, tile, token);
    AddValues<T>(
        rows, tile, {begin, end},
        {std::max(keys.begin, visible.begin), std::min(keys.end, visible.end)},
        scores, out);
    begin = end;
  }
}

// Adds the values of the keys that each row sees: those that all rows of the
// range see together, and by token those before and after them. A masked key is
// left out, not added with weight 0: its value may be anything.
template <class T>
HWY_INLINE void AddVisibleValues(const AttentionRows& rows, const Tile& tile,
                                 RowRange range, const float* scores,
                                 float* out) {
  const KeyRange common = CommonKeys(rows, tile, range);
  if (common.empty()) {
    AddValuesByToken<T>(rows, tile, range, {0, kKeysPerTile}, scores, out);
    return;
  }
  AddValuesByToken<T>(rows, tile, range, {0, common.begin}, scores, out);
  AddValues<T>(rows, tile, range, common, scores, out);
  AddValuesByToken<T>(rows, tile, range, {common.end, kKeysPerTile}, scores,
                      out);
}

template <class T>
struct FloatKv {
  // scores[r][j] = chain over d ascending of q[r][d] * k[d][j], from 0.
  template <int kRows, int kLines>
  HWY_INLINE void ComputeScores(const ScoreBlock& block) const {
    constexpr int kColumns = kLines * kLineVectors;
    const Floats d;
    Vector sums[kRows][kColumns];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
    }
    const T* keys[kLines];
    for (int l = 0; l < kLines; ++l) {
      keys[l] = reinterpret_cast<const T*>(block.keys[l]);
    }
    const int64_t head_dim = rows.head_dim();
    const float* q = workspace.q + block.row * head_dim;
    for (int64_t i = 0; i < head_dim; ++i) {
      Vector k[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        k[c] = LoadFloats(keys[c / kLineVectors] + i * kLine +
                          c % kLineVectors * kLanes);
      }
      for (int r = 0; r < kRows; ++r) {
        const Vector x = hn::Set(d, q[r * head_dim + i]);
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

  // The exponentials are the weights of the values.
  template <bool kMasked>
  HWY_INLINE Vector Weigh(const Tile&, KeyRange, int, Vector p) const {
    return p;
  }
  HWY_INLINE void FinishWeights(RowRange, TileScores) const {}

  // Applies the factors of the tile, then adds its values to every row.
  HWY_INLINE void AddTileValues(const Tile& tile, TileScores scores,
                                float* out) const {
    const Floats d;
    const int64_t num_rows = rows.num_rows();
    const int64_t width = rows.width();
    for (int64_t row = 0; row < num_rows; ++row) {
      if (scores.factors[row] == 1.0f) continue;  // would change nothing
      const Vector factor = hn::Set(d, scores.factors[row]);
      float* row_out = out + row * width;
      for (int64_t i = 0; i < width; i += kLanes) {
        hn::Store(hn::Mul(hn::Load(d, row_out + i), factor), d, row_out + i);
      }
    }
    for (int64_t row = 0; row < num_rows; row += kBlockRows) {
      AddVisibleValues<T>(rows, tile,
                          {row, std::min(row + kBlockRows, num_rows)},
                          scores.scores, out);
    }
  }

  const AttentionRows& rows;
  AttentionWorkspace workspace;  // q: [rows, head_dim], scaled
};

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
