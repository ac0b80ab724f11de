// See linear_fast.h.
#include "engine/ops/kernels/linear_fast.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_fast.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using IntVector = hn::Vec<Ints>;
using Bytes = hn::Repartition<uint8_t, Ints>;
using SignedBytes = hn::Repartition<int8_t, Ints>;
using Shorts = hn::Repartition<int16_t, Ints>;
using ByteVector = hn::Vec<Bytes>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kSteps = kGroupSize / 4;  // 4-way dot products per group
constexpr int64_t kStepBytes = kPanelColumns * 4;
constexpr int64_t kLineBytes = 64;

// Rows whose sums stay in registers together, and the vectors of columns
// beside each other: with 32 registers of 16 lanes, both integer and float
// sums of 3 x 64 outputs, and the weights.
constexpr int kTileRows = 3;
constexpr int TileVectors(int rows) {
  if (kLanes >= 16) return 4;
  return rows == 1 ? 4 : 2;
}

// Groups that all rows are multiplied by before the next: they and a tile's
// rows stay in L1.
constexpr int64_t kChunkGroups = 8;

// From more rows on, it pays to unpack nibbles to bytes once for all of them.
constexpr int64_t kMaxDirectRows = 16;

// Where one group of weights is, packed or unpacked. An unpacked group has
// float32 scales (and minima) and a byte per number.
template <DType kDType, bool kPacked>
struct GroupLayout {
  static constexpr int64_t kScaleBytes = kPacked ? 2 : 4;
  static constexpr int64_t kHeaderBytes =
      kPanelColumns * kScaleBytes * (HasMinimum(kDType) ? 2 : 1);
  static constexpr bool kNibbles = kPacked && IsNibbles(kDType);
  static constexpr int64_t kBytes =
      kHeaderBytes + kSteps * kStepBytes / (kNibbles ? 2 : 1);
};
static_assert(kChunkGroups * GroupLayout<DType::kQ4_1, false>::kBytes <=
              static_cast<int64_t>(kFastScratchBytes));

// sum + the dot products of 4 unsigned weights and 4 signed activations, exact.
template <DType kDType>
HWY_INLINE IntVector Dot(IntVector sum, ByteVector weights,
                         IntVector activations) {
#if HWY_TARGET <= HWY_AVX3_DL
  // The compiler reorders the intrinsic and then copies accumulators.
  asm("vpdpbusd %2, %1, %0"
      : "+v"(sum.raw)
      : "v"(weights.raw), "v"(activations.raw));
  return sum;
#else
  const auto signed_bytes = hn::BitCast(SignedBytes(), activations);
  if constexpr (IsNibbles(kDType)) {  // 2 * 15 * 127 fits in 16 bits
    const auto pairs =
        hn::SatWidenMulPairwiseAdd(Shorts(), weights, signed_bytes);
    return hn::Add(
        sum, hn::WidenMulPairwiseAdd(Ints(), pairs, hn::Set(Shorts(), 1)));
  } else {
    return hn::SumOfMulQuadAccumulate(Ints(), weights, signed_bytes, sum);
  }
#endif
}

template <bool kPacked>
HWY_INLINE FloatVector LoadScales(const std::byte* scales, int64_t column) {
  const Floats d;
  if constexpr (kPacked) {
    const hn::Rebind<hwy::float16_t, Floats> d16;
    return hn::PromoteTo(
        d, hn::LoadU(d16,
                     reinterpret_cast<const hwy::float16_t*>(scales) + column));
  } else {
    return hn::LoadU(d, reinterpret_cast<const float*>(scales) + column);
  }
}

HWY_INLINE ByteVector LoadBytes(const std::byte* p) {
  return hn::LoadU(Bytes(), reinterpret_cast<const uint8_t*>(p));
}

// Four activations of a row in every lane.
HWY_INLINE IntVector BroadcastStep(const QuantizedGroup& group, int step) {
  int32_t four;
  hwy::CopyBytes<4>(group.values + 4 * step, &four);
  return hn::Set(Ints(), four);
}

// A tile of rows times some groups of a panel.
struct FastTile {
  const std::byte* weights = nullptr;   // the first of the groups
  const QuantizedGroup* src = nullptr;  // [rows, src_stride], same group
  int64_t src_stride = 0;
  int64_t num_groups = 0;
  float* dst = nullptr;  // [rows, ld_dst]
  int64_t ld_dst = 0;
  bool accumulate = false;
  // This tile's share of the weights that come next: fetched meanwhile.
  const std::byte* next = nullptr;
  const std::byte* next_end = nullptr;
  int64_t next_lines = 0;  // cache lines, per group
};

// Dot products of one group, for kVectors vectors of columns.
template <DType kDType, bool kPacked, int kRows, int kVectors>
HWY_INLINE void DotGroup(const FastTile& tile, const QuantizedGroup* src,
                         const std::byte* numbers,
                         IntVector (&dots)[kRows][kVectors]) {
  using Layout = GroupLayout<kDType, kPacked>;
  Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
    const QuantizedGroup& group = src[r * tile.src_stride];
    IntVector start = hn::Zero(Ints());
    if constexpr (kDType == DType::kQ8_0) {
      start = hn::Set(Ints(), group.start_offset_128);
    } else if constexpr (kDType == DType::kQ4_0) {
      start = hn::Set(Ints(), group.start_offset_8);
    }
    Unroll<kVectors>([&](auto v)
                         HEADRACE_INLINE_LAMBDA { dots[r][v] = start; });
  });
  const auto add_step = [&](int step,
                            const ByteVector* weights) HEADRACE_INLINE_LAMBDA {
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      const IntVector a = BroadcastStep(src[r * tile.src_stride], step);
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        dots[r][v] = Dot<kDType>(dots[r][v], weights[v], a);
      });
    });
  };
  const ByteVector low_nibbles = hn::Set(Bytes(), 15);
  ByteVector weights[kVectors];
  Unroll<Layout::kNibbles ? kSteps / 2 : kSteps>(
      [&](auto i) HEADRACE_INLINE_LAMBDA {
        const std::byte* bytes = numbers + i * kStepBytes;
        Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
          weights[v] = LoadBytes(bytes + v * kLanes * 4);
        });
        if constexpr (!Layout::kNibbles) {
          add_step(i, weights);
        } else {
          ByteVector half[kVectors];
          Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
            half[v] = hn::And(weights[v], low_nibbles);
          });
          add_step(2 * i, half);
          Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
            half[v] = hn::ShiftRight<4>(weights[v]);
          });
          add_step(2 * i + 1, half);
        }
      });
}

template <DType kDType, bool kPacked, int kRows>
void MultiplyTile(const FastTile& tile) {
  using Layout = GroupLayout<kDType, kPacked>;
  constexpr int kVectors = TileVectors(kRows);
  const Floats d;
  for (int64_t column = 0; column < kPanelColumns;
       column += kVectors * kLanes) {
    FloatVector sums[kRows][kVectors];
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        const float* out = tile.dst + r * tile.ld_dst + column + v * kLanes;
        sums[r][v] = tile.accumulate ? hn::LoadU(d, out) : hn::Zero(d);
      });
    });
    const std::byte* group = tile.weights;
    for (int64_t g = 0; g < tile.num_groups; ++g, group += Layout::kBytes) {
      for (int64_t i = 0; i < tile.next_lines; ++i) {
        hwy::Prefetch(tile.next + (g * tile.next_lines + i) * kLineBytes);
      }
      const QuantizedGroup* src = tile.src + g;
      IntVector dots[kRows][kVectors];
      DotGroup<kDType, kPacked>(
          tile, src, group + Layout::kHeaderBytes + column * 4, dots);
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        const int64_t c = column + v * kLanes;
        const FloatVector scales = LoadScales<kPacked>(group, c);
        FloatVector minima = hn::Zero(d);
        if constexpr (HasMinimum(kDType)) {
          minima = LoadScales<kPacked>(
              group + kPanelColumns * Layout::kScaleBytes, c);
        }
        Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
          const QuantizedGroup& a = src[r * tile.src_stride];
          sums[r][v] =
              hn::MulAdd(hn::ConvertTo(d, dots[r][v]),
                         hn::Mul(scales, hn::Set(d, a.scale)), sums[r][v]);
          if constexpr (HasMinimum(kDType)) {
            sums[r][v] =
                hn::MulAdd(minima, hn::Set(d, a.scaled_sum), sums[r][v]);
          }
        });
      });
    }
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        hn::StoreU(sums[r][v], d,
                   tile.dst + r * tile.ld_dst + column + v * kLanes);
      });
    });
  }
}

template <DType kDType, bool kPacked, int kRows>
void MultiplyTileOf(const FastTile& tile, int64_t rows) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kDType, kPacked, kRows>(tile);
    } else {
      MultiplyTileOf<kDType, kPacked, kRows - 1>(tile, rows);
    }
  }
}

// All rows, in tiles of nearly equal height; `tile` describes the first row.
template <DType kDType, bool kPacked>
void MultiplyTiles(FastTile tile, int64_t num_rows) {
  int64_t tiles = (num_rows + kTileRows - 1) / kTileRows;
  // Few tiles read weights at the pace of memory, and the machine looks ahead
  // better than we do. Where several use the same weights, there is time to
  // fetch the next ones.
  constexpr int64_t kLines = GroupBytes(kDType) / kLineBytes;
  constexpr int64_t kEnoughTiles = IsNibbles(kDType) ? 2 : 3;
  tile.next_lines = tiles < kEnoughTiles ? 0 : (kLines + tiles - 1) / tiles;
  const int64_t share = tile.next_lines * tile.num_groups * kLineBytes;
  for (; tiles > 0; --tiles) {
    const int64_t rows = (num_rows + tiles - 1) / tiles;
    MultiplyTileOf<kDType, kPacked, kTileRows>(tile, rows);
    tile.src += rows * tile.src_stride;
    tile.dst += rows * tile.ld_dst;
    tile.next += share;
    if (tile.next >= tile.next_end) tile.next_lines = 0;
    num_rows -= rows;
  }
}

// One group of nibbles, packed to unpacked.
template <DType kDType>
HWY_INLINE void UnpackGroup(const std::byte* packed, std::byte* unpacked) {
  using From = GroupLayout<kDType, true>;
  using To = GroupLayout<kDType, false>;
  const Floats d;
  constexpr int64_t kScales = kPanelColumns * (HasMinimum(kDType) ? 2 : 1);
  for (int64_t i = 0; i < kScales; i += kLanes) {
    hn::StoreU(LoadScales<true>(packed, i), d,
               reinterpret_cast<float*>(unpacked) + i);
  }
  const std::byte* from = packed + From::kHeaderBytes;
  uint8_t* to = reinterpret_cast<uint8_t*>(unpacked + To::kHeaderBytes);
  for (int pair = 0; pair < kSteps / 2; ++pair) {
    for (int64_t i = 0; i < kStepBytes; i += kLanes * 4) {
      const ByteVector both = LoadBytes(from + i);
      hn::StoreU(hn::And(both, hn::Set(Bytes(), 15)), Bytes(), to + i);
      hn::StoreU(hn::ShiftRight<4>(both), Bytes(), to + kStepBytes + i);
    }
    from += kStepBytes;
    to += 2 * kStepBytes;
  }
}

template <DType kDType>
void MultiplyPanelAs(const FastProduct& product) {
  const std::byte* panel = product.panel.data;
  const int64_t num_groups = product.panel.in / kGroupSize;
  FastTile tile = {
      .src_stride = num_groups, .dst = product.dst, .ld_dst = product.ld_dst};
  const bool unpack = IsNibbles(kDType) && product.num_rows > kMaxDirectRows;
  const int64_t chunk =
      product.num_rows <= kTileRows ? num_groups : kChunkGroups;
  for (int64_t g = 0; g < num_groups; g += chunk) {
    tile.src = product.src + g;
    tile.num_groups = std::min(chunk, num_groups - g);
    tile.accumulate = g > 0;
    tile.weights = panel + g * GroupBytes(kDType);
    tile.next = tile.weights + tile.num_groups * GroupBytes(kDType);
    tile.next_end = tile.next + chunk * GroupBytes(kDType);
    if constexpr (IsNibbles(kDType)) {
      if (unpack) {
        for (int64_t i = 0; i < tile.num_groups; ++i) {
          UnpackGroup<kDType>(
              tile.weights + i * GroupBytes(kDType),
              product.scratch + i * GroupLayout<kDType, false>::kBytes);
        }
        tile.weights = product.scratch;
        MultiplyTiles<kDType, false>(tile, product.num_rows);
        continue;
      }
    }
    MultiplyTiles<kDType, true>(tile, product.num_rows);
  }
}

void MultiplyPanelFastOf(const FastProduct& product) {
  switch (product.panel.dtype) {
    case DType::kQ8_0:
      return MultiplyPanelAs<DType::kQ8_0>(product);
    case DType::kQ4_0:
      return MultiplyPanelAs<DType::kQ4_0>(product);
    case DType::kQ4_1:
      return MultiplyPanelAs<DType::kQ4_1>(product);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return;  // computed as in the exact mode
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(MultiplyPanelFastOf);

void MultiplyPanelFast(const FastProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelFastOf)(product);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
