#include "engine/position/additive_position.h"

#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(AdditivePositionTest, SinusoidsAreThePapers) {
  std::vector<float> row(4);

  AdditivePosition::Sinusoidal(4).Write(1, row);

  // Vaswani et al. 2017, section 3.5, in float64, rounded to float32.
  EXPECT_FLOAT_EQ(row[0], 0.84147098f);
  EXPECT_FLOAT_EQ(row[1], 0.54030231f);
  EXPECT_FLOAT_EQ(row[2], 0.00999983f);
  EXPECT_FLOAT_EQ(row[3], 0.99995000f);
}

TEST(AdditivePositionTest, LearnedRowsHaveAnEnd) {
  const AdditivePosition position =
      AdditivePosition::Learned({1, 2, 3, 4, 5, 6}, /*hidden_size=*/2);
  std::vector<float> row(2);

  position.Write(2, row);

  EXPECT_EQ(row, (std::vector<float>{5, 6}));
  EXPECT_EQ(position.limit(), 3);
  EXPECT_TRUE(position.writes());
}

TEST(AdditivePositionTest, NoneWritesNothing) {
  EXPECT_FALSE(AdditivePosition().writes());
  EXPECT_EQ(AdditivePosition().limit(), std::nullopt);
}

}  // namespace
}  // namespace headrace
