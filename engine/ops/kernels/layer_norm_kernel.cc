// See layer_norm_kernel.h.
#include "engine/ops/kernels/layer_norm_kernel.h"

#include <cmath>
#include <cstddef>

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/layer_norm_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kSumLanes>;
using Vector = hn::Vec<Floats>;
constexpr size_t kLanes = hn::MaxLanes(Floats());
constexpr size_t kVectors = kSumLanes / kLanes;

// Sums term(x) over the row; term(sum, x) adds one vector to a partial sum.
// Lanes past the end keep their partial sum.
template <class Term>
HWY_INLINE float SumOf(const float* src, size_t width, const Term& term) {
  const Floats d;
  Vector sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  size_t i = 0;
  for (; i + kSumLanes <= width; i += kSumLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = term(sums[v], hn::LoadU(d, src + i + v * kLanes));
    }
  }
  for (size_t v = 0; v < kVectors && i < width; ++v, i += kLanes) {
    const Vector sum = term(sums[v], hn::LoadN(d, src + i, width - i));
    sums[v] = hn::IfThenElse(hn::FirstN(d, width - i), sum, sums[v]);
  }
  alignas(64) float lanes[kSumLanes];
  for (size_t v = 0; v < kVectors; ++v) {
    hn::Store(sums[v], d, lanes + v * kLanes);
  }
  return SumOfLanes(lanes);
}

struct Plain {
  HWY_INLINE Vector operator()(Vector sum, Vector x) const {
    return hn::Add(sum, x);
  }
};

struct SquaredDifference {
  float mean;
  HWY_INLINE Vector operator()(Vector sum, Vector x) const {
    const Vector difference = hn::Sub(x, hn::Set(Floats(), mean));
    return hn::MulAdd(difference, difference, sum);
  }
};

float LayerNormRow(const float* src, std::span<const float> weight,
                   std::span<const float> bias, double eps, float* dst) {
  const Floats d;
  const size_t width = weight.size();
  const double count = static_cast<double>(width);
  const float mean = static_cast<float>(
      static_cast<double>(SumOf(src, width, Plain())) / count);
  const double variance =
      static_cast<double>(SumOf(src, width, SquaredDifference{mean})) / count;
  const double divisor = std::sqrt(variance + eps);
  const float scale = static_cast<float>(1.0 / divisor);
  for (size_t i = 0; i < width; i += kLanes) {
    // LoadN and StoreN touch at most kLanes.
    const size_t rest = width - i;
    const Vector x = hn::LoadN(d, src + i, rest);
    Vector y = hn::Mul(hn::Sub(x, hn::Set(d, mean)), hn::Set(d, scale));
    y = hn::Mul(y, hn::LoadN(d, weight.data() + i, rest));
    if (!bias.empty()) y = hn::Add(y, hn::LoadN(d, bias.data() + i, rest));
    hn::StoreN(y, d, dst + i, rest);
  }
  return static_cast<float>(divisor);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(LayerNormRow);

float LayerNormRow(const float* src, std::span<const float> weight,
                   std::span<const float> bias, double eps, float* dst) {
  return HWY_DYNAMIC_DISPATCH(LayerNormRow)(src, weight, bias, eps, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
