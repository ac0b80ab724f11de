// What rounding floats to integers with a common scale is made of.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ROUNDING_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ROUNDING_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ROUNDING_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ROUNDING_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kSmallestBits = 0x0D800000;  // 2^-100
constexpr int32_t kInfinityBits = 0x7F800000;

// The bit patterns of magnitudes order like the magnitudes, NaNs last.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> MagnitudeBits(D, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  return hn::And(hn::BitCast(di, x), hn::Set(di, 0x7FFFFFFF));
}

// Adding this to a float below 2^22 leaves the integer nearest to it, ties to
// even, in the low bits of the sum.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
constexpr int32_t kRounderBits = 0x4B400000;

// fl(x * factor) + kRounder, for results below 2^22.
template <class D>
HWY_INLINE hn::Vec<D> Rounded(D d, hn::Vec<D> x, hn::Vec<D> factor) {
  return hn::Add(hn::Mul(x, factor), hn::Set(d, kRounder));
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
