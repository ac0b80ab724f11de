#include "server/batching/wire_rows.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

ActivationChunk Sent(const std::vector<float>& values, WireDtype dtype) {
  ActivationChunk chunk{.dtype = dtype};
  AppendWireRow(values, chunk);
  return chunk;
}

uint16_t FirstHalf(const ActivationChunk& chunk) {
  uint16_t half = 0;
  std::memcpy(&half, chunk.data.data(), 2);
  return half;
}

// What a reader makes of an int8 chunk of one row.
std::vector<float> ReadInt8(const ActivationChunk& chunk) {
  std::vector<float> values;
  for (const char byte : chunk.data) {
    values.push_back(chunk.scales[0] *
                     static_cast<float>(static_cast<int8_t>(byte)));
  }
  for (const RowOutlier& outlier : chunk.outliers) {
    values[static_cast<size_t>(outlier.dimension)] = outlier.value;
  }
  return values;
}

TEST(WireRowsTest, F32KeepsEveryBit) {
  const std::vector<float> values = {1.5f, -0.0f,
                                     std::numeric_limits<float>::quiet_NaN()};
  const ActivationChunk chunk = Sent(values, WireDtype::kF32);
  EXPECT_EQ(std::memcmp(chunk.data.data(), values.data(), 12), 0);
  EXPECT_EQ(chunk.max_abs_error, 0);
  EXPECT_EQ(chunk.overflow_count, 0);
}

TEST(WireRowsTest, BFloat16SaysWhatItLost) {
  const float largest = std::numeric_limits<float>::max();
  const ActivationChunk chunk =
      Sent({1.0f, 1.00390625f, largest, INFINITY}, WireDtype::kBF16);
  ASSERT_THAT(chunk.data, SizeIs(8));
  EXPECT_EQ(FirstHalf(chunk), 0x3F80);
  // 1 + 2^-8 lies between 1 and 1 + 2^-7, and goes to the even one.
  EXPECT_EQ(chunk.max_abs_error, 0.00390625f);
  EXPECT_EQ(chunk.overflow_count, 1) << "the infinity was one before";
}

TEST(WireRowsTest, HalfOverflowsWhereBFloat16DoesNot) {
  const ActivationChunk chunk =
      Sent({1.0f, 1.00048828125f, 70000.0f}, WireDtype::kF16);
  ASSERT_THAT(chunk.data, SizeIs(6));
  EXPECT_EQ(FirstHalf(chunk), 0x3C00);
  EXPECT_EQ(chunk.max_abs_error, 0.00048828125f);
  EXPECT_EQ(chunk.overflow_count, 1);
}

TEST(WireRowsTest, Int8IsWithinHalfAStep) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) {
    values.push_back(std::sin(static_cast<float>(i)) * 3.0f);
  }
  const ActivationChunk chunk = Sent(values, WireDtype::kInt8);
  EXPECT_THAT(chunk.outliers, IsEmpty());
  ASSERT_THAT(chunk.scales, SizeIs(1));
  const std::vector<float> read = ReadInt8(chunk);
  float worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(read[i] - values[i]));
  }
  EXPECT_EQ(chunk.max_abs_error, worst);
  EXPECT_LE(worst, 0.5f * chunk.scales[0] * 1.0001f);
}

// The residual at position 0 of SmolLM2 has one dimension of 2 * 10^4 among
// values of about 1.
TEST(WireRowsTest, AGiantDimensionDoesNotWipeOutTheOthers) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) {
    values.push_back(std::cos(static_cast<float>(i)));
  }
  values[17] = -20000;
  values[40] = 300;
  const ActivationChunk chunk = Sent(values, WireDtype::kInt8);
  ASSERT_THAT(chunk.outliers, SizeIs(2));
  EXPECT_EQ(chunk.outliers[0].dimension, 17);
  EXPECT_EQ(chunk.outliers[0].value, -20000);
  EXPECT_EQ(chunk.outliers[1].dimension, 40);
  EXPECT_LE(chunk.max_abs_error, 1.0f / 127);
  const std::vector<float> read = ReadInt8(chunk);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(read[i], values[i], 0.5 / 127 * 1.0001);
  }
}

TEST(WireRowsTest, Int8SendsWhatIsNotFiniteAsItIs) {
  std::vector<float> values(16, 0.5f);
  values[3] = INFINITY;
  ActivationChunk chunk = Sent(values, WireDtype::kInt8);
  ASSERT_THAT(chunk.outliers, SizeIs(1));
  EXPECT_EQ(chunk.outliers[0].value, INFINITY);
  EXPECT_EQ(chunk.overflow_count, 0);
  values.assign(16, INFINITY);
  chunk = Sent(values, WireDtype::kInt8);
  EXPECT_THAT(chunk.outliers, SizeIs(8));
  EXPECT_EQ(chunk.overflow_count, 8);
  EXPECT_EQ(chunk.scales[0], 0);
}

}  // namespace
}  // namespace headrace
