// Keys and values as integers of type `T` with a scale per position, products
// in 32 bits.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_INTEGERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_INTEGERS_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_INTEGERS_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_INTEGERS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/attention_scores-inl.h"
#include "engine/ops/kernels/attention_softmax-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "engine/ops/kernels/kv_integers-inl.h"
#include "engine/ops/kernels/kv_integers.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

using Ints = hn::RebindToSigned<Floats>;
using IntVector = hn::Vec<Ints>;
using Shorts = hn::Repartition<int16_t, Ints>;
using ShortVector = hn::Vec<Shorts>;

constexpr int64_t kScaleBytes = kLine * sizeof(float);
constexpr int64_t kPairsPerTile = kKeysPerTile / 2;
constexpr int64_t kPairsPerLine = kLine / 2;

// sum + the two products of each pair, exact.
HWY_INLINE IntVector AddPairs(IntVector sum, ShortVector a, ShortVector b) {
#if HWY_TARGET <= HWY_AVX3_DL
  // The compiler reorders the intrinsic and then copies accumulators.
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#else
  return hn::Add(sum, hn::WidenMulPairwiseAdd(Ints(), a, b));
#endif
}

// A vector of pairs, from pair `index` on.
template <class T>
HWY_INLINE ShortVector LoadPairs(const std::byte* pairs, int64_t index) {
  const T* from = reinterpret_cast<const T*>(pairs) + 2 * index;
  if constexpr (sizeof(T) == sizeof(int16_t)) {
    return hn::LoadU(Shorts(), from);
  } else {
    return hn::PromoteTo(Shorts(), hn::LoadU(hn::Rebind<T, Shorts>(), from));
  }
}

// One pair in every lane.
HWY_INLINE ShortVector BroadcastPair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, sizeof(both));
  return hn::BitCast(Shorts(), hn::Set(Ints(), both));
}

// Register tiles of kRows x kColumns vectors.
template <int kRows, int kColumns, class Body>
HWY_INLINE void ForTile(const Body& body) {
  Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
    Unroll<kColumns>([&](auto c) HEADRACE_INLINE_LAMBDA { body(r, c); });
  });
}

template <class T>
struct IntegerKv {
  // scores[r][j] = float(sum over d of q[r][d] * k[j][d]) * (scale of q * of k)
  template <int kRows, int kLines>
  HWY_INLINE void ComputeScores(const ScoreBlock& block) const {
    constexpr int kColumns = kLines * kLineVectors;
    const Floats d;
    // Sums that wait for each other less; their order does not matter.
    constexpr int kSplits = kRows * kColumns <= 6 ? 2 : 1;
    IntVector sums[kSplits][kRows][kColumns];
    ForTile<kRows, kColumns>([&](auto r, auto c) HEADRACE_INLINE_LAMBDA {
      for (auto& split : sums) split[r][c] = hn::Zero(Ints());
    });
    const std::byte* keys[kLines];
    for (int l = 0; l < kLines; ++l) keys[l] = block.keys[l] + kScaleBytes;
    const int64_t width = rows.width();
    const int16_t* q = workspace.integer_q + block.row * width;
    for (int64_t first = 0; first < width / 2; first += kSplits) {
      Unroll<kSplits>([&](auto split) HEADRACE_INLINE_LAMBDA {
        const int64_t pair = first + split;
        ShortVector k[kColumns];
        Unroll<kColumns>([&](auto c) HEADRACE_INLINE_LAMBDA {
          k[c] = LoadPairs<T>(keys[c / kLineVectors],
                              pair * kLine + c % kLineVectors * kLanes);
        });
        Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
          const ShortVector x = BroadcastPair(q + r * width + 2 * pair);
          Unroll<kColumns>([&](auto c) HEADRACE_INLINE_LAMBDA {
            sums[split][r][c] = AddPairs(sums[split][r][c], k[c], x);
          });
        });
      });
    }
    ForTile<kRows, kColumns>([&](auto r, auto c) HEADRACE_INLINE_LAMBDA {
      const Vector scale =
          hn::Mul(hn::Set(d, workspace.q_scales[block.row + r]),
                  Scales(block.keys[c / kLineVectors], c % kLineVectors));
      IntVector sum = sums[0][r][c];
      for (int i = 1; i < kSplits; ++i) sum = hn::Add(sum, sums[i][r][c]);
      hn::Store(hn::Mul(hn::ConvertTo(d, sum), scale), d,
                block.scores + r * kKeysPerTile + c * kLanes);
    });
  }

  // Exponentials of vector `c` of a tile, times the scales of the values.
  template <bool kMasked>
  HWY_INLINE Vector Weigh(const Tile& tile, KeyRange keys, int c,
                          Vector p) const {
    int64_t line = c / kLineVectors;
    // Lines that no row sees may not exist.
    if (kMasked &&
        (line * kLine >= keys.end || (line + 1) * kLine <= keys.begin)) {
      line = keys.begin / kLine;
    }
    return hn::Mul(p, Scales(tile.values[line], c % kLineVectors));
  }

  // The weights of up to kLanes rows as integers.
  HWY_INLINE void FinishWeights(RowRange range, TileScores scores) const {
    RoundRowsToInt16(scores.scores + range.begin * kKeysPerTile, kKeysPerTile,
                     range.size(), static_cast<float>(kWeightLimit),
                     scores.weights + range.begin * kKeysPerTile,
                     scores.weight_scales + range.begin);
  }

  // out = out * factor + float(sum over keys of weight * value) * scale
  HWY_INLINE void AddTileValues(const Tile& tile, TileScores scores,
                                float* out) const {
    const int64_t num_rows = rows.num_rows();
    // Wide tiles read the values in the order in which they lie.
    if (num_rows <= kBlockRows / 2 && rows.width() % kWideWidth == 0) {
      AddValues<kBlockRows / 2, 2 * kBlockLines>(tile, {0, num_rows}, scores,
                                                 out);
      return;
    }
    for (int64_t row = 0; row < num_rows; row += kBlockRows) {
      AddValues<kBlockRows, kBlockLines>(
          tile, {row, std::min(row + kBlockRows, num_rows)}, scores, out);
    }
  }

  const AttentionRows& rows;
  AttentionWorkspace workspace;

 private:
  static constexpr int64_t kWideWidth = 2 * kBlockLines * kLine;

  static HWY_INLINE Vector Scales(const std::byte* line, int vector) {
    return hn::LoadU(Floats(),
                     reinterpret_cast<const float*>(line) + vector * kLanes);
  }

  struct ValueBlock {
    const std::byte* const* values;  // one per line of keys
    KeyRange keys;
    int64_t row;
    int64_t column;
    TileScores scores;
    float* out;  // [rows, width]
  };

  template <int kRows, int kLines>
  HWY_INLINE void AddValues(const Tile& tile, RowRange range, TileScores scores,
                            float* out) const {
    ValueBlock block = {.values = tile.values,
                        .keys = UnitedKeys(rows, tile, range),
                        .row = range.begin,
                        .column = 0,
                        .scores = scores,
                        .out = out};
    if (block.keys.empty()) return;
    while (block.column < rows.width()) {
      const bool whole = rows.width() - block.column >= kLines * kLine;
      ChooseValues<kRows, kLines>(range.size(), whole, block);
      block.column += (whole ? kLines : 1) * kLine;
    }
  }

  template <int kRows, int kLines>
  HWY_INLINE void ChooseValues(int num_rows, bool whole,
                               const ValueBlock& block) const {
    if (num_rows < kRows) {
      if constexpr (kRows > 1) {
        ChooseValues<kRows - 1, kLines>(num_rows, whole, block);
      }
    } else if (whole) {
      ComputeValues<kRows, kLines>(block);
    } else {
      ComputeValues<kRows, 1>(block);
    }
  }

  template <int kRows, int kLines>
  HWY_INLINE void ComputeValues(const ValueBlock& block) const {
    constexpr int kColumns = kLines * kLineVectors;
    const Floats d;
    IntVector sums[kRows][kColumns];
    ForTile<kRows, kColumns>([&](auto r, auto c) HEADRACE_INLINE_LAMBDA {
      sums[r][c] = hn::Zero(Ints());
    });
    const int16_t* weights = block.scores.weights + block.row * kKeysPerTile;
    const int64_t end_pair = (block.keys.end + 1) / 2;
    for (int64_t pair = block.keys.begin / 2; pair < end_pair; ++pair) {
      const std::byte* line = block.values[pair / kPairsPerLine] + kScaleBytes;
      const int64_t first = pair % kPairsPerLine * rows.width() + block.column;
      ShortVector v[kColumns];
      Unroll<kColumns>([&](auto c) HEADRACE_INLINE_LAMBDA {
        v[c] = LoadPairs<T>(line, first + c * kLanes);
      });
      Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
        const ShortVector x =
            BroadcastPair(weights + r * kKeysPerTile + 2 * pair);
        Unroll<kColumns>([&](auto c) HEADRACE_INLINE_LAMBDA {
          sums[r][c] = AddPairs(sums[r][c], v[c], x);
        });
      });
    }
    ForTile<kRows, kColumns>([&](auto r, auto c) HEADRACE_INLINE_LAMBDA {
      float* to = block.out + (block.row + r) * rows.width() + block.column +
                  c * kLanes;
      const Vector old = hn::Mul(
          hn::Load(d, to), hn::Set(d, block.scores.factors[block.row + r]));
      hn::Store(hn::MulAdd(
                    hn::ConvertTo(d, sums[r][c]),
                    hn::Set(d, block.scores.weight_scales[block.row + r]), old),
                d, to);
    });
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
