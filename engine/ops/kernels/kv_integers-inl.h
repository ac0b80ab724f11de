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

// Of numbers whose greatest magnitudes have these bits: what turns integers
// back, and in `factors` what makes them, 0 if they become 0.
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

// RoundRowsToInt16() of as many rows as a vector has lanes, at the most.
// Together, so that they do not wait for one another's chains of dependent
// operations.
HWY_INLINE void RoundBatchToInt16(const float* src, int64_t size, int num_rows,
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

// As QuantizeToInt16().
HWY_INLINE void RoundRowsToInt16(const float* src, int64_t size,
                                 int64_t num_rows, float limit, int16_t* dst,
                                 float* scales) {
  constexpr int64_t kBatch =
      static_cast<int64_t>(hn::MaxLanes(RoundedFloats()));
  for (int64_t row = 0; row < num_rows; row += kBatch) {
    RoundBatchToInt16(src + row * size, size,
                      static_cast<int>(std::min(kBatch, num_rows - row)), limit,
                      dst + row * size, scales + row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
