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
#include <iterator>

#include "engine/ops/kernels/kv_integers.h"
#include "engine/ops/kernels/rounding-inl.h"
#include "engine/ops/kernels/transposed_reduce-inl.h"
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

// What turns integers back, as ScaleTo() has it, and in `factors` what makes
// them.
HWY_INLINE RoundedVector
ScalesTo(float limit, hn::Vec<hn::RebindToSigned<RoundedFloats>> absmax_bits,
         float* factors) {
  const RoundedFloats d;
  const hn::RebindToSigned<RoundedFloats> di;
  const auto absmax = hn::BitCast(d, absmax_bits);
  const auto counts =
      hn::RebindMask(d, hn::Ge(absmax_bits, hn::Set(di, kSmallestBits)));
  const auto finite =
      hn::RebindMask(d, hn::Lt(absmax_bits, hn::Set(di, kInfinityBits)));
  hn::Store(hn::IfThenElseZero(hn::And(counts, finite),
                               hn::Div(hn::Set(d, limit), absmax)),
            d, factors);
  const auto scale = hn::Mul(absmax, hn::Set(d, 1.0f / limit));
  return hn::IfThenElseZero(counts, hn::IfThenElse(finite, scale, absmax));
}

// src[i] * factor as integers; `size` is a multiple of 16.
HWY_INLINE void StoreInt16(const float* src, int64_t size, float factor,
                           int16_t* dst) {
  const RoundedFloats d;
  const hn::RebindToUnsigned<RoundedFloats> du;
  const hn::Repartition<uint16_t, RoundedFloats> d16;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(RoundedFloats()));
  if (HWY_UNLIKELY(factor == 0)) {
    std::fill_n(dst, size, int16_t{0});
    return;
  }
  const auto factors = hn::Set(d, factor);
  // The integer is in the low bits.
  const auto rounded = [&](int64_t i) HWY_ATTR {
    return hn::BitCast(du, Rounded(d, hn::Load(d, src + i), factors));
  };
  auto* to = reinterpret_cast<uint16_t*>(dst);
  int64_t i = 0;
  for (; i + 2 * kStep <= size; i += 2 * kStep) {
    hn::StoreU(hn::OrderedTruncate2To(d16, rounded(i), rounded(i + kStep)), d16,
               to + i);
  }
  if (i < size) {
    const hn::Rebind<uint16_t, RoundedFloats> half;
    hn::StoreU(hn::TruncateTo(half, rounded(i)), half, to + i);
  }
}

// Rounds up to as many rows as a vector has lanes, of `size` floats each, one
// after the other, to integers up to `limit`; `scales`: one per row. `size` is
// a multiple of 16. Together, so that they do not wait for one another's chains
// of dependent operations.
HWY_INLINE void RoundRowsToInt16(const float* src, int64_t size, int num_rows,
                                 float limit, int16_t* dst, float* scales) {
  const RoundedFloats d;
  const hn::RebindToSigned<RoundedFloats> di;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(RoundedFloats()));
  HWY_ALIGN int32_t most[kStep * kStep];
  std::fill(most + num_rows * kStep, std::end(most), 0);
  for (int row = 0; row < num_rows; ++row) {
    auto greatest = hn::Zero(di);
    for (int64_t i = row * size; i < (row + 1) * size; i += kStep) {
      greatest = hn::Max(greatest, MagnitudeBits(d, hn::Load(d, src + i)));
    }
    hn::Store(greatest, di, most + row * kStep);
  }
  HWY_ALIGN float factors[kStep];
  hn::StoreN(ScalesTo(limit, ReduceEach(di, most, Maximum()), factors), d,
             scales, static_cast<size_t>(num_rows));
  for (int row = 0; row < num_rows; ++row) {
    StoreInt16(src + row * size, size, factors[row], dst + row * size);
  }
}

// The same of one row.
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
