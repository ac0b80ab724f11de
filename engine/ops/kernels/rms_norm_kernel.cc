// See rms_norm_kernel.h.
#include "engine/ops/kernels/rms_norm_kernel.h"

#include <cmath>
#include <cstddef>

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/rms_norm_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kSumLanes>;
constexpr size_t kLanes = hn::MaxLanes(Floats());
constexpr size_t kVectors = kSumLanes / kLanes;

HWY_INLINE float SumOfSquares(const float* src, size_t width) {
  const Floats d;
  hn::Vec<Floats> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kSumLanes <= width; i += kSumLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      const auto x = hn::LoadU(d, src + i + v * kLanes);
      sums[v] = hn::MulAdd(x, x, sums[v]);
    }
  }
  for (size_t v = 0; v < kVectors && i < width; ++v, i += kLanes) {
    // Lanes past the end are zero and add exactly nothing.
    const auto x = hn::LoadN(d, src + i, width - i);
    sums[v] = hn::MulAdd(x, x, sums[v]);
  }
  alignas(64) float lanes[kSumLanes];
  for (size_t v = 0; v < kVectors; ++v) {
    hn::Store(sums[v], d, lanes + v * kLanes);
  }
  return SumOfLanes(lanes);
}

float RmsNormRow(const float* src, const float* statistics,
                 std::span<const float> weight, double eps, float* dst) {
  const Floats d;
  const size_t width = weight.size();
  const double mean = static_cast<double>(SumOfSquares(statistics, width)) /
                      static_cast<double>(width);
  const double divisor = std::sqrt(mean + eps);
  const auto s = hn::Set(d, static_cast<float>(1.0 / divisor));
  size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const auto y = hn::Mul(hn::LoadU(d, src + i), s);
    hn::StoreU(hn::Mul(y, hn::LoadU(d, weight.data() + i)), d, dst + i);
  }
  if (i < width) {
    const auto y = hn::Mul(hn::LoadN(d, src + i, width - i), s);
    const auto w = hn::LoadN(d, weight.data() + i, width - i);
    hn::StoreN(hn::Mul(y, w), d, dst + i, width - i);
  }
  return static_cast<float>(divisor);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(RmsNormRow);

float RmsNormRow(const float* src, const float* statistics,
                 std::span<const float> weight, double eps, float* dst) {
  return HWY_DYNAMIC_DISPATCH(RmsNormRow)(src, statistics, weight, eps, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
