// Rows of int8 with one scale each, against their scalar twin.
#include "engine/ops/int8_rows.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "engine/base/thread_team.h"
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
using ::headrace::testing::RemainderReference;
using ::testing::Each;

// Of several sizes, with a great value at times.
std::vector<float> SomeRows(size_t size) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(size);
  for (float& value : rows) {
    value = normal(random) * (random() % 50 == 0 ? 40.0f : 1.0f);
  }
  return rows;
}

void ExpectRow(const Int8Rows& rows, int64_t row, int64_t term,
               std::span<const float> x) {
  const ReferenceGroup expected = QuantizeReference(x);
  EXPECT_EQ(rows.scales(row)[term], expected.scale) << row;
  const uint8_t* values = rows.values(row) + term * rows.width();
  for (size_t k = 0; k < x.size(); ++k) {
    ASSERT_EQ(values[k] - 128, expected.values[k]) << row << " " << k;
  }
}

std::vector<int> ValuesOf(const std::vector<float>& row, float& scale) {
  ThreadTeam team(1);
  Int8Rows rows;
  const auto width = static_cast<int64_t>(row.size());
  rows.Quantize(team, row.data(), 1, width);
  scale = rows.scales(0)[0];
  std::vector<int> values;
  for (int64_t k = 0; k < width; ++k) values.push_back(rows.values(0)[k] - 128);
  return values;
}

TEST(Int8RowsTest, EqualScalarTwin) {
  ThreadTeam team(2);
  for (const int64_t width : {32, 64, 96, 576, 1536}) {
    for (const int64_t num_rows : {1, 3, 40}) {
      const std::vector<float> src =
          SomeRows(static_cast<size_t>(num_rows * width));
      Int8Rows rows;

      rows.Quantize(team, src.data(), num_rows, width);

      for (int64_t r = 0; r < num_rows; ++r) {
        ExpectRow(rows, r, 0,
                  std::span(src).subspan(static_cast<size_t>(r * width),
                                         static_cast<size_t>(width)));
      }
    }
  }
}

TEST(Int8RowsTest, TheSecondTermIsWhatTheFirstLeaves) {
  ThreadTeam team(2);
  const std::vector<float> src = SomeRows(40 * 96);
  Int8Rows rows;

  rows.Quantize(team, src.data(), 40, 96, RowPrecision::kTwiceInt8);

  ASSERT_EQ(rows.terms(), 2);
  for (int64_t r = 0; r < 40; ++r) {
    const auto x = std::span(src).subspan(static_cast<size_t>(r) * 96, 96);
    ExpectRow(rows, r, 0, x);
    ExpectRow(rows, r, 1, RemainderReference(x, 96));
  }
}

TEST(Int8RowsTest, HalvesGoToTheEvenNumber) {
  std::vector<float> row(32, 0.5f);
  row[0] = 127;
  row[1] = 1.5f;
  row[2] = -2.5f;

  float scale = 0;
  const std::vector<int> values = ValuesOf(row, scale);

  EXPECT_EQ(scale, 1.0f);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(values[2], -2);
  EXPECT_EQ(values[3], 0);
}

TEST(Int8RowsTest, TinyRowIsZero) {
  float scale = 1;

  EXPECT_THAT(ValuesOf(std::vector<float>(64, -1e-31f), scale), Each(0));
  EXPECT_EQ(scale, 0.0f);
}

TEST(Int8RowsTest, NonFiniteRowKeepsItsScale) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> row(64, 1.0f);
    row[5] = bad;
    float scale = 1;

    EXPECT_THAT(ValuesOf(row, scale), Each(0));
    EXPECT_FALSE(std::isfinite(scale));
  }
}

TEST(Int8RowsTest, NormedRowsEqualNormThenQuantize) {
  auto context = OpsContext::Create(2);
  ASSERT_TRUE(context.ok()) << context.status();
  const std::vector<float> weight = SomeRows(96);
  for (const int64_t num_rows : {1, 3, 700}) {
    const std::vector<float> src = SomeRows(static_cast<size_t>(num_rows) * 96);
    const RmsNormInputs inputs = {
        .src = src.data(), .num_rows = num_rows, .weight = weight, .eps = 1e-5};
    std::vector<float> normed(src.size());
    RmsNorm((*context)->team(), inputs, normed.data(), nullptr);
    Int8Rows expected;
    expected.Quantize((*context)->team(), normed.data(), num_rows, 96);

    Int8Rows got;
    RmsNormQuantize(**context, inputs, got);

    ASSERT_EQ(got.num_rows(), num_rows);
    EXPECT_EQ(std::memcmp(got.values(0), expected.values(0), src.size()), 0);
    EXPECT_EQ(std::memcmp(got.scales(0), expected.scales(0),
                          static_cast<size_t>(num_rows) * sizeof(float)),
              0);
  }
}

}  // namespace
}  // namespace headrace
