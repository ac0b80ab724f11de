// See quantize_rows.h.
#include "engine/ops/kernels/quantize_rows.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/quantize_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/rounding-inl.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sum of 16 signed bytes.
HWY_INLINE int32_t SumOfHalf(const uint8_t* bytes) {
  const hn::Full128<uint8_t> d;
  const hn::Repartition<uint64_t, hn::Full128<uint8_t>> d64;
  // Sums of eight are those of unsigned bytes: each is 128 too much.
  const auto sums =
      hn::SumsOf8(hn::Xor(hn::LoadU(d, bytes), hn::Set(d, uint8_t{128})));
  return static_cast<int32_t>(hn::ReduceSum(d64, sums)) - 16 * 128;
}

void QuantizeGroup(const float* src, QuantizedGroup& dst) {
  using Floats = hn::CappedTag<float, 16>;
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
  constexpr int kVectors = kGroupSize / kLanes;

  hn::Vec<Floats> x[kVectors];
  auto most = hn::Zero(di);
  Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
    x[v] = hn::LoadU(d, src + v * kLanes);
    most = hn::Max(most, MagnitudeBits(d, x[v]));
  });
  const int32_t absmax_bits = hn::ReduceMax(di, most);
  const float absmax = std::bit_cast<float>(absmax_bits);
  const bool tiny = absmax_bits < kSmallestBits;
  dst.scale = tiny ? 0.0f : absmax / 127.0f;
  if (tiny || absmax_bits >= kInfinityBits) {
    dst = {.scale = dst.scale};
    dst.scaled_sum = dst.scale * 0.0f;
    return;
  }

  const auto factor = hn::Set(d, 127.0f / absmax);
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<uint8_t, Floats> du8;
  auto* values = reinterpret_cast<uint8_t*>(dst.values);
  Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
    // The integer is in the low bits.
    hn::StoreU(hn::TruncateTo(du8, hn::BitCast(du, Rounded(d, x[v], factor))),
               du8, values + v * kLanes);
  });
  const int32_t half_sum = SumOfHalf(values);
  const int32_t sum = half_sum + SumOfHalf(values + kGroupSize / 2);
  dst.scaled_sum = dst.scale * static_cast<float>(sum);
  dst.negative_sum = -sum;
  dst.negative_half_sum = -half_sum;
}

void QuantizeGroupsOf(const float* src, int64_t num_groups,
                      QuantizedGroup* dst) {
  for (int64_t g = 0; g < num_groups; ++g) {
    QuantizeGroup(src + g * kGroupSize, dst[g]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeGroupsOf);

void QuantizeGroups(const float* src, int64_t num_groups, QuantizedGroup* dst) {
  HWY_DYNAMIC_DISPATCH(QuantizeGroupsOf)(src, num_groups, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
