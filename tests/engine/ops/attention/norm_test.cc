#include <cmath>
#include <vector>

#include "engine/ops/layer_norm.h"
#include "engine/ops/rms_norm.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/attention/elementwise_reference.h"
#include "tests/engine/ops/attention/isa_sweep.h"

namespace headrace {
namespace {

using testing::ForEachIsa;
using testing::IsaSet;
using testing::NormalValues;

constexpr double kEps = 1e-5;
const int64_t kWidths[] = {1, 3, 8, 16, 17, 31, 64, 576, 1000, 2050};

struct Normed {
  std::vector<float> rows;
  std::vector<float> scales;
};

Normed RunRmsNorm(const std::vector<float>& src,
                  const std::vector<float>& weight, int num_threads) {
  ThreadTeam team(num_threads);
  const size_t num_rows = src.size() / weight.size();
  Normed normed = {.rows = src, .scales = std::vector<float>(num_rows)};
  RmsNorm(team,
          {.src = normed.rows.data(),  // in place
           .num_rows = static_cast<int64_t>(num_rows),
           .weight = weight,
           .eps = kEps},
          normed.rows.data(), normed.scales.data());
  return normed;
}

Normed RunLayerNorm(const std::vector<float>& src,
                    const std::vector<float>& weight,
                    const std::vector<float>& bias, int num_threads) {
  ThreadTeam team(num_threads);
  const size_t num_rows = src.size() / weight.size();
  Normed normed = {.rows = src, .scales = std::vector<float>(num_rows)};
  LayerNorm(team,
            {.src = normed.rows.data(),
             .num_rows = static_cast<int64_t>(num_rows),
             .weight = weight,
             .bias = bias,
             .eps = kEps},
            normed.rows.data(), normed.scales.data());
  return normed;
}

TEST(RmsNormTest, EqualsScalarCodeOnEveryInstructionSetWithFma) {
  for (const int64_t width : kWidths) {
    const std::vector<float> src = NormalValues(3 * width, 0.5f, 2, 1);
    const std::vector<float> weight = NormalValues(width, 1, 0.3f, 2);
    ForEachIsa(IsaSet::kWithFma, [&] {
      const Normed actual = RunRmsNorm(src, weight, 1);
      for (size_t row = 0; row < 3; ++row) {
        const size_t offset = row * weight.size();
        float scale = 0;
        const std::vector<float> expected = testing::RmsNormInOrder(
            std::span(src).subspan(offset, weight.size()), weight, kEps, scale);
        EXPECT_EQ(actual.scales[row], scale);
        EXPECT_EQ(
            std::vector<float>(
                actual.rows.begin() + static_cast<int64_t>(offset),
                actual.rows.begin() + static_cast<int64_t>(offset) + width),
            expected)
            << width;
      }
    });
  }
}

TEST(RmsNormTest, AgreesWithFloat64) {
  for (const int64_t width : kWidths) {
    const std::vector<float> src = NormalValues(width, -0.5f, 30, 3);
    const std::vector<float> weight = NormalValues(width, 1, 0.3f, 4);
    double sum = 0;
    for (const float x : src) sum += static_cast<double>(x) * x;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(width) + kEps);
    ForEachIsa(IsaSet::kAll, [&] {
      const Normed actual = RunRmsNorm(src, weight, 1);
      for (size_t i = 0; i < src.size(); ++i) {
        // Sums of at most 129 squares per lane, one sqrt, two products.
        const double exact = src[i] * scale * weight[i];
        ASSERT_NEAR(actual.rows[i], exact, 1e-6 * std::abs(exact));
      }
    });
  }
}

TEST(RmsNormTest, RowsDoNotDependOnThreadsOrBatch) {
  const int64_t width = 576;
  const std::vector<float> src = NormalValues(200 * width, 0, 1, 5);
  const std::vector<float> weight = NormalValues(width, 1, 0.3f, 6);
  const Normed expected = RunRmsNorm(src, weight, 1);
  EXPECT_EQ(RunRmsNorm(src, weight, 3).rows, expected.rows);
  for (int64_t row = 0; row < 200; ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * width);
    ASSERT_EQ(RunRmsNorm({src.begin() + begin, src.begin() + begin + width},
                         weight, 1)
                  .rows,
              std::vector<float>(expected.rows.begin() + begin,
                                 expected.rows.begin() + begin + width));
  }
}

TEST(LayerNormTest, EqualsScalarCodeOnEveryInstructionSetWithFma) {
  for (const int64_t width : kWidths) {
    const std::vector<float> src = NormalValues(width, 0.5f, 2, 7);
    const std::vector<float> weight = NormalValues(width, 1, 0.3f, 8);
    for (const std::vector<float>& bias :
         {std::vector<float>(), NormalValues(width, 0, 0.3f, 9)}) {
      float scale = 0;
      const std::vector<float> expected =
          testing::LayerNormInOrder(src, weight, bias, kEps, scale);
      ForEachIsa(IsaSet::kWithFma, [&] {
        const Normed actual = RunLayerNorm(src, weight, bias, 1);
        EXPECT_EQ(actual.scales[0], scale);
        EXPECT_EQ(actual.rows, expected) << width;
      });
    }
  }
}

TEST(LayerNormTest, AgreesWithFloat64) {
  const int64_t width = 768;
  const std::vector<float> src = NormalValues(width, 3, 2, 10);
  const std::vector<float> weight = NormalValues(width, 1, 0.3f, 11);
  const std::vector<float> bias = NormalValues(width, 0, 0.3f, 12);
  double mean = 0;
  for (const float x : src) mean += x;
  mean /= static_cast<double>(width);
  double variance = 0;
  for (const float x : src) variance += (x - mean) * (x - mean);
  variance /= static_cast<double>(width);
  const double scale = 1 / std::sqrt(variance + kEps);
  ForEachIsa(IsaSet::kAll, [&] {
    const Normed actual = RunLayerNorm(src, weight, bias, 2);
    for (size_t i = 0; i < src.size(); ++i) {
      // The mean is rounded to 2^-24 of 3, a tenth of the tolerance.
      ASSERT_NEAR(actual.rows[i], (src[i] - mean) * scale * weight[i] + bias[i],
                  1e-6);
    }
  });
}

}  // namespace
}  // namespace headrace
