// One group of packed weights as the kernels read it: stored numbers, scales
// and minima, of vectors of neighbouring columns.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_PACKED_GROUP_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_PACKED_GROUP_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_PACKED_GROUP_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_PACKED_GROUP_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"
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
using ByteVector = hn::Vec<Bytes>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

HWY_INLINE ByteVector LoadBytes(const std::byte* p) {
  return hn::LoadU(Bytes(), reinterpret_cast<const uint8_t*>(p));
}

template <QuantizedFormat kFormat>
class PackedGroup {
 public:
  // Group `group` of the weights from `weights` on, which a block begins.
  HWY_INLINE PackedGroup(const std::byte* weights, int64_t group)
      : weights_(weights),
        block_(weights + BlockOffset(kFormat, group)),
        group_(block_ + OffsetInBlock(kFormat, group)) {}

  // The scales of columns [column, column + kLanes), for the first or second
  // 16 weights if the format tells them apart.
  HWY_INLINE FloatVector Scale(int half, int64_t column) const {
    if constexpr (kFormat.row_scale) {
      return hn::LoadU(Floats(),
                       reinterpret_cast<const float*>(weights_) + column);
    }
    return Scaled(block_, group_ + half * kPanelColumns, column);
  }

  HWY_INLINE FloatVector Minimum(int64_t column) const {
    const std::byte* minima = block_ + kPanelColumns * 2;
    if constexpr (kFormat.zero_points) {
      return hn::Neg(hn::Mul(Scale(0, column), Factors(minima, column)));
    } else {
      return Scaled(minima, group_ + kFormat.scales_per_group * kPanelColumns,
                    column);
    }
  }

  // Where steps 2 * pair and 2 * pair + 1 of a column are. Nibbles: both, the
  // first in the low halves of its 4 bytes.
  HWY_INLINE const std::byte* Pair(int pair, int64_t column) const {
    return Row(PairRow(kFormat, pair), column);
  }

  // The stored numbers of step 2 * pair + kOdd: a byte each, four per column.
  template <int kOdd>
  HWY_INLINE ByteVector Step(int pair, int64_t column) const {
    const std::byte* numbers = Pair(pair, column);
    if constexpr (kFormat.bits == 8) {
      return LoadBytes(numbers + kOdd * kStepBytes);
    } else {
      const ByteVector both = LoadBytes(numbers);
      const ByteVector nibbles = kOdd == 0 ? hn::And(both, hn::Set(Bytes(), 15))
                                           : hn::ShiftRight<4>(both);
      if constexpr (kFormat.bits == 4) {
        return nibbles;
      } else {
        return AddHighBits(nibbles, 2 * pair + kOdd, column);
      }
    }
  }

 private:
  static constexpr int kHighBits = HighBits(kFormat);

  static HWY_INLINE FloatVector Factors(const std::byte* factors,
                                        int64_t column) {
    const hn::Rebind<int8_t, Floats> d8;
    const IntVector integers = hn::PromoteTo(
        Ints(),
        hn::LoadU(d8, reinterpret_cast<const int8_t*>(factors) + column));
    return hn::ConvertTo(Floats(), integers);
  }

  static HWY_INLINE FloatVector Scaled(const std::byte* halves,
                                       const std::byte* factors,
                                       int64_t column) {
    const hn::Rebind<hwy::float16_t, Floats> d16;
    const FloatVector scale = hn::PromoteTo(
        Floats(),
        hn::LoadU(d16,
                  reinterpret_cast<const hwy::float16_t*>(halves) + column));
    if constexpr (kFormat.groups_per_block == 1) {
      return scale;
    } else {
      return hn::Mul(scale, Factors(factors, column));
    }
  }

  HWY_INLINE const std::byte* Row(int row, int64_t column) const {
    return group_ + GroupHeaderBytes(kFormat) + row * kStepBytes + column * 4;
  }

  // A row holds kHighBits of each number of 8 / kHighBits steps, those of the
  // first step in the low bits of a byte.
  HWY_INLINE ByteVector AddHighBits(ByteVector nibbles, int step,
                                    int64_t column) const {
    constexpr auto kMask = static_cast<uint8_t>(((1 << kHighBits) - 1) << 4);
    const int bit = step * kHighBits;
    const IntVector row =
        hn::BitCast(Ints(), LoadBytes(Row(HighBitsRow(kFormat, step), column)));
    const int left = 4 - bit % 8;
    const IntVector high = left >= 0 ? hn::ShiftLeftSame(row, left)
                                     : hn::ShiftRightSame(row, -left);
    return hn::OrAnd(nibbles, hn::BitCast(Bytes(), high),
                     hn::Set(Bytes(), kMask));
  }

  const std::byte* weights_;
  const std::byte* block_;
  const std::byte* group_;
};

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
