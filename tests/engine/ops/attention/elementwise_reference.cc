#include "tests/engine/ops/attention/elementwise_reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

#include "engine/ops/kernels/activation_constants.h"
#include "tests/engine/ops/attention/attention_reference.h"

namespace headrace::testing {

float ExpInOrder(float x) {
  x = std::max(kernels::kExpLowest, std::min(kernels::kExpHighest, x));
  const float shifted = std::fma(x, kernels::kLog2E, kernels::kExpShifter);
  const float n = shifted - kernels::kExpShifter;
  float r = std::fma(-n, kernels::kLn2High, x);
  r = std::fma(-n, kernels::kLn2Low, r);
  float p = 0;
  for (const float coefficient : kernels::kExpCoefficients) {
    p = std::fma(p, r, coefficient);
  }
  const int half = static_cast<int>(std::floor(n / 2));
  p *= std::ldexp(1.0f, half);
  return p * std::ldexp(1.0f, static_cast<int>(n) - half);
}

float SiluInOrder(float x) { return x / (1.0f + ExpInOrder(-x)); }

float GeluTanhInOrder(float x) {
  const float slope =
      std::fma(x * x, kernels::kGeluCubic, kernels::kGeluLinear);
  return x / (1.0f + ExpInOrder(-(x * slope)));
}

float GeluErfInOrder(float x) {
  const float t = kernels::kNormalTailA / (kernels::kNormalTailA + std::abs(x));
  float p = 0;
  for (const float coefficient : kernels::kNormalTailCoefficients) {
    p = std::fma(p, t, coefficient);
  }
  const float tail = (p * t) * ExpNonPositiveInOrder((x * x) * -0.5f);
  return x < 0 ? x * tail : std::fma(-x, tail, x);
}

std::vector<float> RmsNormInOrder(std::span<const float> src,
                                  std::span<const float> weight, double eps,
                                  float& scale) {
  float lanes[16] = {};
  for (size_t i = 0; i < src.size(); ++i) {
    lanes[i % 16] = std::fma(src[i], src[i], lanes[i % 16]);
  }
  const double mean =
      SumOfLanesInOrder(lanes) / static_cast<double>(src.size());
  const double divisor = std::sqrt(mean + eps);
  scale = static_cast<float>(divisor);
  const auto s = static_cast<float>(1.0 / divisor);
  std::vector<float> dst;
  for (size_t i = 0; i < src.size(); ++i) {
    dst.push_back((src[i] * s) * weight[i]);
  }
  return dst;
}

std::vector<float> LayerNormInOrder(std::span<const float> src,
                                    std::span<const float> weight,
                                    std::span<const float> bias, double eps,
                                    float& scale) {
  const double count = static_cast<double>(src.size());
  float sums[16] = {};
  for (size_t i = 0; i < src.size(); ++i) sums[i % 16] += src[i];
  const float mean = static_cast<float>(SumOfLanesInOrder(sums) / count);
  float squares[16] = {};
  for (size_t i = 0; i < src.size(); ++i) {
    squares[i % 16] = std::fma(src[i] - mean, src[i] - mean, squares[i % 16]);
  }
  const double variance = SumOfLanesInOrder(squares) / count;
  const double divisor = std::sqrt(variance + eps);
  scale = static_cast<float>(divisor);
  const auto s = static_cast<float>(1.0 / divisor);
  std::vector<float> dst;
  for (size_t i = 0; i < src.size(); ++i) {
    const float y = ((src[i] - mean) * s) * weight[i];
    dst.push_back(bias.empty() ? y : y + bias[i]);
  }
  return dst;
}

std::vector<float> NormalValues(int64_t size, float mean, float deviation,
                                uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = normal(random);
  return values;
}

double UlpError(float actual, double exact) {
  const float nearest = static_cast<float>(exact);
  const float magnitude = std::max(std::abs(nearest), FLT_MIN);
  const double ulp = static_cast<double>(std::nextafter(
                         magnitude, std::numeric_limits<float>::infinity())) -
                     magnitude;
  return std::abs(actual - exact) / ulp;
}

}  // namespace headrace::testing
