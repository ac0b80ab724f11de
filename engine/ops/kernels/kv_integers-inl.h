// See kv_integers.h.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/ops/kernels/kv_integers.h"
#include "engine/ops/kernels/rounding-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RoundedFloats = hn::CappedTag<float, 16>;
using RoundedVector = hn::Vec<RoundedFloats>;

// Of numbers whose greatest magnitude has these bits: the factor that makes
// them integers, 0 if they become 0; and what turns them back.
struct IntegerScale {
  float factor;
  float scale;
};

HWY_INLINE IntegerScale ScaleTo(float limit, int32_t absmax_bits) {
  const float absmax = std::bit_cast<float>(absmax_bits);
  if (absmax_bits < kSmallestBits) return {0, 0};
  if (absmax_bits >= kInfinityBits) return {0, absmax};
  return {limit / absmax, absmax * (1.0f / limit)};
}

// Rounds vectors in registers; an even number of them. See QuantizeToInt16().
template <int kVectors>
HWY_INLINE float RoundToInt16(RoundedFloats d,
                              const RoundedVector (&src)[kVectors], float limit,
                              int16_t* dst) {
  const hn::RebindToSigned<RoundedFloats> di;
  const hn::RebindToUnsigned<RoundedFloats> du;
  const hn::Repartition<uint16_t, RoundedFloats> d16;
  auto most = MagnitudeBits(d, src[0]);
  for (int i = 1; i < kVectors; ++i) {
    most = hn::Max(most, MagnitudeBits(d, src[i]));
  }
  const IntegerScale scale = ScaleTo(limit, hn::ReduceMax(di, most));
  if (HWY_UNLIKELY(scale.factor == 0)) {
    std::fill_n(dst, kVectors * hn::Lanes(d), int16_t{0});
    return scale.scale;
  }
  const auto factor = hn::Set(d, scale.factor);
  for (int i = 0; i < kVectors; i += 2) {
    // The integer is in the low bits.
    const auto low = hn::BitCast(du, Rounded(d, src[i], factor));
    const auto high = hn::BitCast(du, Rounded(d, src[i + 1], factor));
    hn::StoreU(hn::OrderedTruncate2To(d16, low, high), d16,
               reinterpret_cast<uint16_t*>(dst) +
                   static_cast<int64_t>(i * hn::Lanes(d)));
  }
  return scale.scale;
}

// The same of a row in memory; `size` is a multiple of 16.
HWY_INLINE float RoundRowToInt16(const float* src, int64_t size, float limit,
                                 int16_t* dst) {
  const RoundedFloats d;
  const hn::RebindToSigned<RoundedFloats> di;
  const hn::Rebind<int16_t, RoundedFloats> d16;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(RoundedFloats()));
  auto most = hn::Zero(di);
  for (int64_t i = 0; i < size; i += kStep) {
    most = hn::Max(most, MagnitudeBits(d, hn::LoadU(d, src + i)));
  }
  const IntegerScale scale = ScaleTo(limit, hn::ReduceMax(di, most));
  if (scale.factor == 0) {
    std::fill_n(dst, size, int16_t{0});
    return scale.scale;
  }
  const auto factor = hn::Set(d, scale.factor);
  for (int64_t i = 0; i < size; i += kStep) {
    hn::StoreU(hn::DemoteTo(d16, RoundToInt(d, hn::LoadU(d, src + i), factor)),
               d16, dst + i);
  }
  return scale.scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
