#include "engine/tensor/block_formats.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/byte_builder.h"
#include "tests/testing/block_encoder.h"

namespace headrace {
namespace {

// An F16 field of a block.
struct Half {
  size_t offset;
  uint16_t bits;
};

constexpr Half kScale = {0, 0x3800};    // 0.5
constexpr Half kMinimum = {2, 0xB400};  // -0.25

// Byte i is (37 i + 11) mod 256, but for the fields given. The expected sums
// and values were made with ggml's own reference C code.
std::vector<float> ExpandPattern(DType dtype, std::initializer_list<Half> set) {
  std::string block;
  for (int64_t i = 0; i < LayoutOf(dtype).bytes; ++i) {
    block += static_cast<char>((37 * i + 11) % 256);
  }
  for (const Half& half : set) std::memcpy(&block[half.offset], &half.bits, 2);
  std::vector<float> values(static_cast<size_t>(LayoutOf(dtype).elements));
  DequantizeRow(dtype, AsBytes(block).data(), values);
  return values;
}

float Sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0f);
}

TEST(BlockFormatsTest, ExpandsQ8AsTheReferenceDoes) {
  const std::vector<float> values = ExpandPattern(DType::kQ8_0, {kScale});

  EXPECT_EQ(Sum(values), -88);
  EXPECT_EQ(values[0], 42.5f);
  EXPECT_EQ(values[1], 61);
  EXPECT_EQ(values[31], -24);
}

TEST(BlockFormatsTest, ExpandsQ4WithoutMinimumAsTheReferenceDoes) {
  const std::vector<float> values = ExpandPattern(DType::kQ4_0, {kScale});

  EXPECT_EQ(Sum(values), -10.5f);
  EXPECT_EQ(values[0], -1.5f);
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(values[31], 0);
}

TEST(BlockFormatsTest, ExpandsQ4WithMinimumAsTheReferenceDoes) {
  const std::vector<float> values =
      ExpandPattern(DType::kQ4_1, {kScale, kMinimum});

  EXPECT_EQ(Sum(values), 114.5f);
  EXPECT_EQ(values[0], 7.25f);
  EXPECT_EQ(values[1], 1.75f);
  EXPECT_EQ(values[31], 5.75f);
}

TEST(BlockFormatsTest, ExpandsQ5AsTheReferenceDoes) {
  const std::vector<float> values = ExpandPattern(DType::kQ5_0, {kScale});

  EXPECT_EQ(Sum(values), 7.5f);
  EXPECT_EQ(values[0], 4.5f);
  EXPECT_EQ(values[1], -1);
  EXPECT_EQ(values[31], 0.5f);
}

TEST(BlockFormatsTest, ExpandsQ5WithMinimumAsTheReferenceDoes) {
  const std::vector<float> values =
      ExpandPattern(DType::kQ5_1, {kScale, kMinimum});

  EXPECT_EQ(Sum(values), 244.5f);
  EXPECT_EQ(values[0], 9.25f);
  EXPECT_EQ(values[1], 11.75f);
  EXPECT_EQ(values[31], 2.25f);
}

TEST(BlockFormatsTest, ExpandsSuperBlocksAsTheReferenceDoes) {
  constexpr Half kBlockScale = {0, 0x2C00};    // 2^-4
  constexpr Half kBlockMinimum = {2, 0x2800};  // 2^-5
  const std::vector<float> q4 =
      ExpandPattern(DType::kQ4_K, {kBlockScale, kBlockMinimum});
  const std::vector<float> q5 =
      ExpandPattern(DType::kQ5_K, {kBlockScale, kBlockMinimum});
  const std::vector<float> q6 =
      ExpandPattern(DType::kQ6_K, {{208, 0x2000}});  // 2^-7

  EXPECT_EQ(Sum(q4), 3402.5f);
  EXPECT_EQ(q4[0], 19.71875f);
  EXPECT_EQ(q4[128], 26.4375f);
  EXPECT_EQ(q4[255], 3.03125f);
  EXPECT_EQ(Sum(q5), 7263.5f);
  EXPECT_EQ(q5[0], 50.71875f);
  EXPECT_EQ(q5[128], 65.4375f);
  EXPECT_EQ(q5[255], 6.78125f);
  EXPECT_EQ(Sum(q6), 36.03125f);
  EXPECT_EQ(q6[0], -11.1796875f);
  EXPECT_EQ(q6[128], -2.7421875f);
  EXPECT_EQ(q6[255], -0.46875f);
}

// By hand: scale * (number - zero), the zero point being byte 2 (85), plus 128
// where numbers are.
TEST(BlockFormatsTest, ExpandsZeroPointsExactly) {
  const std::vector<float> q4 = ExpandPattern(DType::kQ4_Z, {kScale});
  const std::vector<float> q8 = ExpandPattern(DType::kQ8_Z, {kScale});

  EXPECT_EQ(q4[0], 0.5f * (10 - 85));  // byte 3 is 122: 0x7A
  EXPECT_EQ(q4[16], 0.5f * (7 - 85));
  EXPECT_EQ(q4[15], 0.5f * (5 - 85));  // byte 18 is 165: 0xA5
  EXPECT_EQ(q4[31], 0.5f * (10 - 85));
  EXPECT_EQ(q8[0], 0.5f * (122 - 85));
  EXPECT_EQ(q8[1], 0.5f * (159 - 256 - 85));
  EXPECT_EQ(q8[31], 0.5f * (245 - 256 - 85));  // byte 34
}

TEST(BlockFormatsTest, ExpandsHalvesExactly) {
  const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00, 0x8000};
  std::vector<float> values(6);

  DequantizeRow(DType::kF16, reinterpret_cast<const std::byte*>(halves),
                values);

  EXPECT_THAT(values,
              ::testing::ElementsAre(1, -2, 0x1p-24f, 65504, INFINITY, 0));
  EXPECT_TRUE(std::signbit(values[5]));
}

TEST(BlockFormatsTest, ExpandsBrainFloatsExactly) {
  const uint16_t words[] = {0x3F80, 0xC049, 0x0001, 0xFF80};
  std::vector<float> values(4);

  DequantizeRow(DType::kBF16, reinterpret_cast<const std::byte*>(words),
                values);

  EXPECT_THAT(values,
              ::testing::ElementsAre(1, -3.140625f, 0x1p-133f, -INFINITY));
}

TEST(BlockFormatsTest, CopiesFloats) {
  const std::vector<float> source = {1.25f, -0.0f, 1e-40f, INFINITY};
  std::vector<float> values(4);

  DequantizeRow(DType::kF32, reinterpret_cast<const std::byte*>(source.data()),
                values);

  EXPECT_EQ(std::memcmp(values.data(), source.data(), 16), 0);
}

TEST(BlockFormatsTest, ReadsBlocksAtOddAddresses) {
  const std::vector<float> source(64, -3.5f);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ4_1}) {
    const std::string bytes = "x" + EncodeBlocks(dtype, source);
    std::vector<float> values(64);
    DequantizeRow(dtype, AsBytes(bytes).data() + 1, values);
    EXPECT_EQ(values, source) << LayoutOf(dtype).name;
  }
}

TEST(BlockFormatsTest, ExpandsNothingFromNothing) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    DequantizeRow(dtype, nullptr, {});
  }
}

// The encoder of the tests against the decoder: no value is further off than
// half a step of its block, plus the rounding of an f16 scale (2^-11 of the
// largest code).
struct RoundTrip {
  DType dtype;
  float steps;  // codes over the range
  float slack;  // of the range
};

class RoundTripTest : public ::testing::TestWithParam<RoundTrip> {};

TEST_P(RoundTripTest, StaysWithinHalfAStep) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> source(256 * 8);
  for (float& value : source) value = uniform(random);

  const std::string bytes = EncodeBlocks(GetParam().dtype, source);
  std::vector<float> values(source.size());
  DequantizeRow(GetParam().dtype, AsBytes(bytes).data(), values);

  const float limit = 2.0f * (0.5f / GetParam().steps + GetParam().slack);
  for (size_t i = 0; i < source.size(); ++i) {
    ASSERT_NEAR(values[i], source[i], limit) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, RoundTripTest,
    ::testing::Values(RoundTrip{DType::kQ8_0, 254, 0x1p-11f},
                      // Codes -8..7: the far end may be one half step short.
                      RoundTrip{DType::kQ4_0, 8, 0x1p-11f},
                      RoundTrip{DType::kQ4_1, 15, 0x1p-10f},
                      RoundTrip{DType::kQ5_0, 16, 0x1p-11f},
                      RoundTrip{DType::kQ5_1, 31, 0x1p-10f},
                      // Half a step of each of the factors of 6 bits besides.
                      RoundTrip{DType::kQ4_K, 15, 0x1p-6f},
                      RoundTrip{DType::kQ5_K, 31, 0x1p-6f},
                      RoundTrip{DType::kQ6_K, 32, 0x1p-8f},
                      // The far end may be half a step short.
                      RoundTrip{DType::kQ4_Z, 7.5f, 0x1p-10f},
                      RoundTrip{DType::kQ8_Z, 127, 0x1p-10f}),
    [](const auto& info) {
      return std::string(LayoutOf(info.param.dtype).name);
    });

}  // namespace
}  // namespace headrace
