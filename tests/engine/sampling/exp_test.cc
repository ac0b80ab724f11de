#include "engine/sampling/exp.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(ExpTest, IsWithinTwoUnitsOfTheLastPlace) {
  for (double x = -87; x <= 0; x += 0.00037) {
    const auto argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    // A unit of the last place is at most 2^-23 of the value.
    EXPECT_NEAR(ExpOfNonPositive(argument) / exact, 1, 2 * 0x1p-23) << x;
  }
}

TEST(ExpTest, EndsOfItsRange) {
  EXPECT_EQ(ExpOfNonPositive(0.0F), 1.0F);
  EXPECT_EQ(ExpOfNonPositive(-0.0F), 1.0F);
  EXPECT_EQ(ExpOfNonPositive(-std::numeric_limits<float>::denorm_min()), 1.0F);
  EXPECT_GT(ExpOfNonPositive(-87.0F), 0.0F);
  EXPECT_EQ(ExpOfNonPositive(-87.01F), 0.0F);
  EXPECT_EQ(ExpOfNonPositive(-std::numeric_limits<float>::max()), 0.0F);
  EXPECT_EQ(ExpOfNonPositive(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(ExpOfNonPositive(std::numeric_limits<float>::quiet_NaN()), 0.0F);
}

}  // namespace
}  // namespace headrace
