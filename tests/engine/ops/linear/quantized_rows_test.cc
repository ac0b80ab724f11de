#include "engine/ops/quantized_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "engine/ops/kernels/quantize_rows.h"
#include "engine/ops/normed_rows.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/rms_norm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/linear/linear_reference.h"

namespace headrace {
namespace {

using ::headrace::testing::QuantizeReference;
using ::headrace::testing::ReferenceGroup;
using ::testing::Each;
using ::testing::ElementsAreArray;

// The quantised groups of one row.
std::vector<kernels::QuantizedGroup> Quantize(const std::vector<float>& row) {
  auto context = OpsContext::Create(2);
  EXPECT_TRUE(context.ok()) << context.status();
  QuantizedRows rows;
  rows.Quantize((*context)->team(), row.data(), 1,
                static_cast<int64_t>(row.size()));
  return {rows.groups(), rows.groups() + row.size() / 32};
}

TEST(QuantizedRowsTest, EqualScalarTwin) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(40000);  // several tasks
  for (float& value : row) value = normal(random);
  for (size_t i = 0; i < 32; ++i) {
    row[32 + i] *= 1e-30f;  // near the smallest that counts
    row[64 + i] *= 1e30f;
    row[96 + i] = static_cast<float>(i) * 0.5f;  // ties once scaled
  }
  row[96] = 127.0f;

  const auto groups = Quantize(row);

  for (size_t g = 0; g < groups.size(); ++g) {
    const ReferenceGroup expected =
        QuantizeReference(std::span(row).subspan(32 * g, 32));
    EXPECT_THAT(groups[g].values, ElementsAreArray(expected.values)) << g;
    EXPECT_EQ(groups[g].scale, expected.scale) << g;
    EXPECT_EQ(groups[g].scaled_sum,
              expected.scale * static_cast<float>(expected.sum))
        << g;
    EXPECT_EQ(groups[g].negative_sum, -expected.sum) << g;
    EXPECT_EQ(groups[g].negative_half_sum,
              -std::accumulate(expected.values.begin(),
                               expected.values.begin() + 16, 0))
        << g;
  }
}

// Groups are quantised many at a time, wherever they go.
TEST(QuantizedRowsTest, RowsApartEqualRowsInOnePiece) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  constexpr int64_t kRows = 37;
  constexpr int64_t kGroups = 3;
  constexpr int64_t kStride = 5;
  std::vector<float> src(kRows * kGroups * 32);
  for (float& value : src) value = normal(random);
  src[32 * 40] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(src.begin() + 32 * 90, 32, 0.0f);
  const auto expected = Quantize(src);

  std::vector<kernels::QuantizedGroup> got(kRows * kStride);
  kernels::QuantizeRows(src.data(), kRows, kGroups, got.data(), kStride);

  for (size_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::memcmp(&got[row * kStride], &expected[row * kGroups],
                          kGroups * sizeof(kernels::QuantizedGroup)),
              0)
        << row;
    EXPECT_EQ(got[row * kStride + kGroups].scale, 0.0f) << row;  // untouched
  }
}

void ExpectNormedRowsEqualNormThenQuantize(int64_t num_rows, int64_t width) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> weight(static_cast<size_t>(width));
  for (float& value : weight) value = normal(random);
  auto context = OpsContext::Create(2);
  ASSERT_TRUE(context.ok()) << context.status();
  std::vector<float> src(static_cast<size_t>(num_rows * width));
  for (float& value : src) value = normal(random);
  const RmsNormInputs inputs = {
      .src = src.data(), .num_rows = num_rows, .weight = weight, .eps = 1e-5};
  std::vector<float> normed(src.size());
  RmsNorm((*context)->team(), inputs, normed.data(), nullptr);
  QuantizedRows expected;
  expected.Quantize((*context)->team(), normed.data(), num_rows, width);

  QuantizedRows got;
  RmsNormQuantize(**context, inputs, got);

  ASSERT_EQ(got.num_rows(), num_rows);
  EXPECT_EQ(std::memcmp(got.groups(), expected.groups(),
                        static_cast<size_t>(num_rows * width / 32) *
                            sizeof(kernels::QuantizedGroup)),
            0)
      << num_rows << " rows of " << width;
}

TEST(QuantizedRowsTest, NormedRowsEqualNormThenQuantize) {
  for (const int64_t num_rows : {1, 3, 700}) {  // 700: several tasks
    ExpectNormedRowsEqualNormThenQuantize(num_rows, 96);
  }
}

TEST(QuantizedRowsTest, NormedRowsMayBeWiderThanTheScratch) {
  constexpr int64_t kScratchFloats = OpsContext::kScratchBytes / sizeof(float);
  for (const int64_t width : {kScratchFloats, kScratchFloats + 32}) {
    ExpectNormedRowsEqualNormThenQuantize(3, width);
  }
}

TEST(QuantizedRowsTest, TinyGroupIsZero) {
  const auto groups = Quantize(std::vector<float>(32, -1e-31f));

  EXPECT_EQ(groups[0].scale, 0.0f);
  EXPECT_EQ(groups[0].scaled_sum, 0.0f);
  EXPECT_THAT(groups[0].values, Each(0));
}

TEST(QuantizedRowsTest, NonFiniteGroupKeepsItsScale) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> row(64, 1.0f);
    row[5] = bad;

    const auto groups = Quantize(row);

    EXPECT_FALSE(std::isfinite(groups[0].scale));
    EXPECT_TRUE(std::isnan(groups[0].scaled_sum));
    EXPECT_THAT(groups[0].values, Each(0));
    EXPECT_EQ(groups[0].negative_sum, 0);
    EXPECT_EQ(groups[0].negative_half_sum, 0);
    EXPECT_EQ(groups[1].scale, 1.0f / 127.0f);
  }
}

}  // namespace
}  // namespace headrace
