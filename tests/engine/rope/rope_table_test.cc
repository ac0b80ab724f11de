#include "engine/rope/rope_table.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

EffectiveRope Ladder() {
  EffectiveRope rope;
  rope.inv_freqs = {1.0, 0.1, 0.01, 2.45514079e-6};
  return rope;
}

TEST(RopeTableTest, RoundsTheExactCosineAndSineOnce) {
  const EffectiveRope rope = Ladder();
  std::vector<float> cos(4);
  std::vector<float> sin(4);
  for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{131071},
                                 int64_t{1048575}, int64_t{16777217}}) {
    ComputeRopeRow(rope, position, cos, sin);
    for (size_t i = 0; i < 4; ++i) {
      const long double angle = static_cast<long double>(position) *
                                static_cast<long double>(rope.inv_freqs[i]);
      // Half a float32 ulp of 1, and float64's error of the angle.
      EXPECT_NEAR(cos[i], std::cos(angle), 6.1e-8) << position << " " << i;
      EXPECT_NEAR(sin[i], std::sin(angle), 6.1e-8) << position << " " << i;
    }
  }
}

TEST(RopeTableTest, MultipliesTheAttentionFactorIn) {
  EffectiveRope rope = Ladder();
  rope.attention_factor = 1.25;
  std::vector<float> cos(4);
  std::vector<float> sin(4);
  ComputeRopeRow(rope, 7, cos, sin);

  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::hypot(cos[i], sin[i]), 1.25, 2e-7);
  }
}

TEST(RopeTableTest, ZeroFrequencyDoesNotTurn) {
  EffectiveRope rope;
  rope.inv_freqs = {0.0};
  std::vector<float> cos(1);
  std::vector<float> sin(1);
  ComputeRopeRow(rope, 123456, cos, sin);

  EXPECT_EQ(cos[0], 1.0F);
  EXPECT_EQ(sin[0], 0.0F);
}

}  // namespace
}  // namespace headrace
