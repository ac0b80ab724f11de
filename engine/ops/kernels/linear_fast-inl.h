// The loops of the fast mode, for the files linear_fast_*.cc that compile them
// for some types each.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_FAST_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "engine/ops/kernels/byte_dot-inl.h"
#include "engine/ops/kernels/isa.h"
#include "engine/ops/kernels/linear_fast.h"
#include "engine/ops/kernels/linear_fast_kernels.h"
#include "engine/ops/kernels/packed_group-inl.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLineBytes = 64;

// Rows whose sums stay in registers together: with 32 registers of 16 lanes,
// both integer and float sums of 3 x 64 outputs, and the weights.
constexpr int kTileRows = 3;

// Groups that all rows are multiplied by before the next: they and a tile's
// rows stay in L1.
constexpr int64_t kChunkGroups = 8;

// From more rows on, it pays to unpack a group once for all of them.
constexpr int64_t MaxDirectRows(const QuantizedFormat& format) {
  if (format.bits == 8) return std::numeric_limits<int64_t>::max();
  return format.bits == 4 && format.groups_per_block == 1 ? 16 : 8;
}

// How unpacked groups are told apart; the same for many types.
constexpr QuantizedFormat Unpacked(const QuantizedFormat& format) {
  return {.bits = 7,  // or fewer
          .offset = format.offset,
          .has_minimum = format.has_minimum,
          .scales_per_group = format.scales_per_group};
}

// As PackedGroup, with float32 scales and minima and a byte per number.
template <QuantizedFormat kFormat>
class UnpackedGroup {
 public:
  static constexpr int64_t kHeaderBytes =
      kPanelColumns * 4 *
      (kFormat.scales_per_group + (kFormat.has_minimum ? 1 : 0));
  static constexpr int64_t kBytes = kHeaderBytes + kGroupSteps * kStepBytes;
  static_assert(kChunkGroups * kBytes <=
                static_cast<int64_t>(kFastScratchBytes));

  HWY_INLINE UnpackedGroup(const std::byte* weights, int64_t group)
      : group_(weights + group * kBytes) {}

  HWY_INLINE FloatVector Scale(int half, int64_t column) const {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(group_) +
                                   half * kPanelColumns + column);
  }
  HWY_INLINE FloatVector Minimum(int64_t column) const {
    return Scale(kFormat.scales_per_group, column);
  }
  template <int kOdd>
  HWY_INLINE ByteVector Step(int pair, int64_t column) const {
    return LoadBytes(group_ + kHeaderBytes + (2 * pair + kOdd) * kStepBytes +
                     column * 4);
  }

 private:
  const std::byte* group_;
};

template <QuantizedFormat kFormat>
HWY_INLINE void Unpack(const PackedGroup<kFormat>& packed, std::byte* dst) {
  const Floats d;
  auto* scales = reinterpret_cast<float*>(dst);
  auto* numbers = reinterpret_cast<uint8_t*>(
      dst + UnpackedGroup<Unpacked(kFormat)>::kHeaderBytes);
  for (int64_t column = 0; column < kPanelColumns; column += kLanes) {
    Unroll<kFormat.scales_per_group>([&](auto half) HEADRACE_INLINE_LAMBDA {
      hn::StoreU(packed.Scale(half, column), d,
                 scales + half * kPanelColumns + column);
    });
    if constexpr (kFormat.has_minimum) {
      hn::StoreU(packed.Minimum(column), d,
                 scales + kFormat.scales_per_group * kPanelColumns + column);
    }
    Unroll<kGroupPairs>([&](auto pair) HEADRACE_INLINE_LAMBDA {
      uint8_t* to = numbers + 2 * pair * kStepBytes + column * 4;
      hn::StoreU(packed.template Step<0>(pair, column), Bytes(), to);
      hn::StoreU(packed.template Step<1>(pair, column), Bytes(),
                 to + kStepBytes);
    });
  }
}

// What a dot product of the group, or of its half `kHalf`, starts from.
template <QuantizedFormat kFormat, int kHalf>
HWY_INLINE IntVector Start(const QuantizedGroup& group) {
  if constexpr (kFormat.offset == 0) {
    return hn::Zero(Ints());
  } else {
    constexpr int kShift =
        std::countr_zero(static_cast<uint32_t>(kFormat.offset));
    static_assert(1 << kShift == kFormat.offset);
    IntVector sum = hn::Set(Ints(), kFormat.scales_per_group == 2 && kHalf == 0
                                        ? group.negative_half_sum
                                        : group.negative_sum);
    if constexpr (kFormat.scales_per_group == 2 && kHalf == 1) {
      sum = hn::Sub(sum, hn::Set(Ints(), group.negative_half_sum));
    }
    return hn::ShiftLeft<kShift>(sum);
  }
}

// A tile of rows times some groups of a panel.
struct FastTile {
  const std::byte* weights = nullptr;   // the first of the groups
  const QuantizedGroup* src = nullptr;  // [rows, src_stride], same group
  int64_t src_stride = 0;
  int64_t num_groups = 0;
  const float* sums = nullptr;  // [rows, 64], what to start from; null: 0
  float* dst = nullptr;         // [rows, ld_dst]
  int64_t ld_dst = 0;
  bool add = false;  // to dst
  // This tile's share of the weights that come next: fetched meanwhile.
  const std::byte* next = nullptr;
  const std::byte* next_end = nullptr;
  int64_t next_lines = 0;  // cache lines, per group
};

// Dot products of one group, or of its half `kHalf` if that has a scale of its
// own, for kVectors vectors of columns. Dot: see byte_dot-inl.h.
template <QuantizedFormat kFormat, class Dot, int kHalf, class Group, int kRows,
          int kVectors>
HWY_INLINE void DotGroup(const QuantizedGroup* src, int64_t src_stride,
                         const Group& weights, int64_t column,
                         IntVector (&dots)[kRows][kVectors]) {
  Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
    const IntVector start = Start<kFormat, kHalf>(src[r * src_stride]);
    Unroll<kVectors>([&](auto v)
                         HEADRACE_INLINE_LAMBDA { dots[r][v] = start; });
  });
  constexpr int kPairs = kGroupPairs / kFormat.scales_per_group;
  Unroll<kPairs>([&](auto i) HEADRACE_INLINE_LAMBDA {
    const int pair = kHalf * kPairs + i;
    Unroll<2>([&](auto odd) HEADRACE_INLINE_LAMBDA {
      ByteVector numbers[kVectors];
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        numbers[v] = weights.template Step<odd>(pair, column + v * kLanes);
      });
      Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
        const auto a = hn::BitCast(
            SignedBytes(),
            BroadcastFour(src[r * src_stride].values + 4 * (2 * pair + odd)));
        Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
          dots[r][v] =
              Dot::template Add<kFormat.bits>(dots[r][v], numbers[v], a);
        });
      });
    });
  });
}

// sums += the products of one group.
template <QuantizedFormat kFormat, class Dot, class Group, int kRows,
          int kVectors>
HWY_INLINE void AddGroup(const QuantizedGroup* src, int64_t src_stride,
                         const Group& weights, int64_t column,
                         FloatVector (&sums)[kRows][kVectors]) {
  const Floats d;
  // One row reads at the pace of memory, so in the order of its bytes: scales
  // come before numbers. More rows need the registers.
  constexpr bool kScalesFirst = kRows == 1;
  FloatVector scales[kFormat.scales_per_group][kVectors];
  FloatVector minima[kVectors];
  const auto load_scales = [&](auto half) HEADRACE_INLINE_LAMBDA {
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      scales[half][v] = weights.Scale(half, column + v * kLanes);
    });
  };
  const auto load_minima = [&]() HEADRACE_INLINE_LAMBDA {
    Unroll<kFormat.has_minimum ? kVectors : 0>(
        [&](auto v) HEADRACE_INLINE_LAMBDA {
          minima[v] = weights.Minimum(column + v * kLanes);
        });
  };
  if constexpr (kScalesFirst) {
    Unroll<kFormat.scales_per_group>(load_scales);
    load_minima();
  }
  Unroll<kFormat.scales_per_group>([&](auto half) HEADRACE_INLINE_LAMBDA {
    IntVector dots[kRows][kVectors];
    DotGroup<kFormat, Dot, half>(src, src_stride, weights, column, dots);
    if constexpr (!kScalesFirst) load_scales(half);
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
        sums[r][v] = hn::MulAdd(
            hn::ConvertTo(d, dots[r][v]),
            hn::Mul(scales[half][v], hn::Set(d, src[r * src_stride].scale)),
            sums[r][v]);
      });
    });
  });
  if constexpr (!kScalesFirst) load_minima();
  Unroll<kFormat.has_minimum ? kVectors : 0>(
      [&](auto v) HEADRACE_INLINE_LAMBDA {
        Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
          sums[r][v] =
              hn::MulAdd(minima[v], hn::Set(d, src[r * src_stride].scaled_sum),
                         sums[r][v]);
        });
      });
}

template <QuantizedFormat kFormat, class Dot,
          template <QuantizedFormat> class Group, int kRows>
void MultiplyTile(const FastTile& tile) {
  constexpr int kVectors = TileVectors(kRows);
  const Floats d;
  for (int64_t column = 0; column < kPanelColumns;
       column += kVectors * kLanes) {
    FloatVector sums[kRows][kVectors];
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        const float* from = tile.sums + r * kPanelColumns + column + v * kLanes;
        sums[r][v] = tile.sums != nullptr ? hn::LoadU(d, from) : hn::Zero(d);
      });
    });
    for (int64_t g = 0; g < tile.num_groups; ++g) {
      for (int64_t i = 0; i < tile.next_lines; ++i) {
        hwy::Prefetch(tile.next + (g * tile.next_lines + i) * kLineBytes);
      }
      AddGroup<kFormat, Dot>(tile.src + g, tile.src_stride,
                             Group<kFormat>(tile.weights, g), column, sums);
    }
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        float* to = tile.dst + r * tile.ld_dst + column + v * kLanes;
        if (tile.add) sums[r][v] = hn::Add(hn::LoadU(d, to), sums[r][v]);
        hn::StoreU(sums[r][v], d, to);
      });
    });
  }
}

template <QuantizedFormat kFormat, class Dot,
          template <QuantizedFormat> class Group, int kRows>
void MultiplyTileOf(const FastTile& tile, int64_t rows) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kFormat, Dot, Group, kRows>(tile);
    } else {
      MultiplyTileOf<kFormat, Dot, Group, kRows - 1>(tile, rows);
    }
  }
}

// All rows, in tiles of nearly equal height; `tile` describes the first row,
// and its next_lines are those of a group.
template <QuantizedFormat kFormat, class Dot,
          template <QuantizedFormat> class Group>
void MultiplyTiles(FastTile tile, int64_t num_rows) {
  int64_t tiles = (num_rows + kTileRows - 1) / kTileRows;
  // Few tiles read weights at the pace of memory, and the machine looks ahead
  // better than we do. Where several use the same weights, there is time to
  // fetch the next ones.
  constexpr int64_t kEnoughTiles = kFormat.bits == 8 ? 3 : 2;
  tile.next_lines =
      tiles < kEnoughTiles ? 0 : (tile.next_lines + tiles - 1) / tiles;
  const int64_t share = tile.next_lines * tile.num_groups * kLineBytes;
  for (; tiles > 0; --tiles) {
    const int64_t rows = (num_rows + tiles - 1) / tiles;
    MultiplyTileOf<kFormat, Dot, Group, kTileRows>(tile, rows);
    tile.src += rows * tile.src_stride;
    if (tile.sums != nullptr) tile.sums += rows * kPanelColumns;
    tile.dst += rows * tile.ld_dst;
    tile.next += share;
    if (tile.next >= tile.next_end) tile.next_lines = 0;
    num_rows -= rows;
  }
}

template <QuantizedFormat kFormat, class Dot = TargetDot>
void MultiplyPanelAs(const FastProduct& product) {
  static_assert(kChunkGroups % kFormat.groups_per_block == 0);
  const int64_t num_groups = product.panel.in / kGroupSize;
  FastTile tile = {.src_stride = num_groups};
  const bool unpack = product.num_rows > MaxDirectRows(kFormat);
  const int64_t chunk =
      product.num_rows <= kTileRows ? num_groups : kChunkGroups;
  for (int64_t g = 0; g < num_groups; g += chunk) {
    tile.src = product.src + g;
    tile.num_groups = std::min(chunk, num_groups - g);
    tile.sums = g > 0 ? product.sums : nullptr;
    const bool last = g + chunk >= num_groups;
    tile.dst = last ? product.dst : product.sums;
    tile.ld_dst = last ? product.ld_dst : kPanelColumns;
    tile.add = last && product.add;
    tile.weights = product.panel.data + BlockOffset(kFormat, g);
    tile.next = tile.weights + BlockOffset(kFormat, tile.num_groups);
    tile.next_end = tile.next + BlockOffset(kFormat, chunk);
    tile.next_lines =
        BlockBytes(kFormat) / (kFormat.groups_per_block * kLineBytes);
    if constexpr (kFormat.bits != 8) {
      if (unpack) {
        constexpr QuantizedFormat kUnpacked = Unpacked(kFormat);
        for (int64_t i = 0; i < tile.num_groups; ++i) {
          Unpack(PackedGroup<kFormat>(tile.weights, i),
                 product.scratch + i * UnpackedGroup<kUnpacked>::kBytes);
        }
        tile.weights = product.scratch;
        MultiplyTiles<kUnpacked, Dot, UnpackedGroup>(tile, product.num_rows);
        continue;
      }
    }
    MultiplyTiles<kFormat, Dot, PackedGroup>(tile, product.num_rows);
  }
}

// By the best dot product that this machine has of the target's.
template <QuantizedFormat kFormat>
FastKernel BestKernel() {
#if HWY_TARGET == HWY_AVX2
  if (UsesAvxVnni()) return MultiplyPanelAs<kFormat, AvxVnniDot>;
#endif
  return MultiplyPanelAs<kFormat>;
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
