// See quantize_rows.h.
#include "engine/ops/kernels/quantize_rows.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/quantize_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Bit patterns of magnitudes order like the magnitudes, NaNs last.
constexpr int32_t kMagnitudeBits = 0x7FFFFFFF;
constexpr int32_t kSmallestBits = 0x0D800000;  // 2^-100
constexpr int32_t kInfinityBits = 0x7F800000;
// Adding 1.5 * 2^23 leaves the integer nearest to x, ties to even, in the low
// bits of the sum, for |x| < 2^22.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;

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
    most = hn::Max(most,
                   hn::And(hn::BitCast(di, x[v]), hn::Set(di, kMagnitudeBits)));
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

  const auto inverse = hn::Set(d, 127.0f / absmax);
  hn::Vec<decltype(di)> sums[2] = {hn::Zero(di), hn::Zero(di)};  // by half
  Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
    const auto rounded =
        hn::BitCast(di, hn::Add(hn::Mul(x[v], inverse), hn::Set(d, kRounder)));
    const auto q = hn::Sub(rounded, hn::Set(di, kRounderBits));
    constexpr int kHalf = v / (kVectors / 2);
    sums[kHalf] = hn::Add(sums[kHalf], q);
    const hn::Rebind<int8_t, Floats> di8;
    hn::StoreU(hn::DemoteTo(di8, q), di8, dst.values + v * kLanes);
  });
  const int32_t half_sum = hn::ReduceSum(di, sums[0]);
  const int32_t sum = half_sum + hn::ReduceSum(di, sums[1]);
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
