#include "engine/ops/activation.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/attention/attention_reference.h"
#include "tests/engine/ops/attention/elementwise_reference.h"
#include "tests/engine/ops/attention/isa_sweep.h"

namespace headrace {
namespace {

using testing::ForEachIsa;
using testing::IsaSet;

struct Function {
  Activation activation;
  double (*exact)(double x);
  float (*in_order)(float x);
};

double ExactSilu(double x) { return x / (1 + std::exp(-x)); }
double ExactGeluErf(double x) {
  return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double ExactGeluTanh(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

constexpr Function kFunctions[] = {
    {Activation::kSilu, ExactSilu, testing::SiluInOrder},
    {Activation::kGeluErf, ExactGeluErf, testing::GeluErfInOrder},
    {Activation::kGeluTanh, ExactGeluTanh, testing::GeluTanhInOrder},
};

std::vector<float> Apply(Activation activation, const std::vector<float>& x) {
  ThreadTeam team(1);
  std::vector<float> dst(x.size());
  const int64_t width = static_cast<int64_t>(x.size());
  Activate(
      team, activation,
      {.gate = x.data(), .num_rows = 1, .width = width, .row_stride = width},
      dst.data());
  return dst;
}

// From -30 to 30 by less than 1/16000, and then some.
std::vector<float> Sweep() {
  std::vector<float> x;
  for (int i = -500000; i <= 500000; ++i) {
    x.push_back(static_cast<float>(i) * 6.1e-5f);
  }
  for (const float far : {-100.0f, -88.0f, -1e5f, 100.0f, 1e5f, 0.0f, -0.0f}) {
    x.push_back(far);
  }
  return x;
}

TEST(ActivationTest, ExponentialsAreWithinTheirBounds) {
  for (int i = 0; i <= 1000000; ++i) {
    const float x = -87.3f + static_cast<float>(i) * 8.73e-5f;
    if (x > 0) break;
    // 2 ulp, and what log2(e) in float32 is off by, times x.
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(testing::ExpNonPositiveInOrder(x), exact,
                (2.4e-7 - 1.4e-8 * x) * exact)
        << x;
  }
  for (int i = 0; i <= 1000000; ++i) {
    const float x = -87.3f + static_cast<float>(i) * 1.76e-4f;
    if (x > 88.7f) break;
    ASSERT_LT(testing::UlpError(testing::ExpInOrder(x),
                                std::exp(static_cast<double>(x))),
              1.0)
        << x;
  }
  EXPECT_EQ(testing::ExpInOrder(0), 1.0f);
  EXPECT_EQ(testing::ExpNonPositiveInOrder(0), 1.0f);
  EXPECT_EQ(testing::ExpInOrder(-200), 0.0f);
  EXPECT_EQ(testing::ExpInOrder(200), std::numeric_limits<float>::infinity());
}

TEST(ActivationTest, AgreesWithFloat64) {
  const std::vector<float> x = Sweep();
  for (const Function& function : kFunctions) {
    const std::vector<float> actual = Apply(function.activation, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = function.exact(static_cast<double>(x[i]));
      if (std::abs(exact) < 1e-6 * std::abs(x[i])) {
        // Far tails: the exponent's own rounding shows; absolute error only.
        ASSERT_NEAR(actual[i], exact, 1e-11 * std::abs(x[i])) << x[i];
      } else {
        // GELU's exponent is at most 15 here, and rounded to 2^-24 of that
        // more than once.
        const double limit = function.activation == Activation::kSilu ? 2 : 25;
        ASSERT_LT(testing::UlpError(actual[i], exact), limit)
            << x[i] << " gives " << actual[i] << " for " << exact;
      }
    }
  }
}

TEST(ActivationTest, EqualsScalarCodeOnEveryInstructionSetWithFma) {
  const std::vector<float> x = Sweep();
  for (const Function& function : kFunctions) {
    std::vector<float> expected;
    for (const float value : x) expected.push_back(function.in_order(value));
    ForEachIsa(IsaSet::kWithFma,
               [&] { ASSERT_EQ(Apply(function.activation, x), expected); });
  }
}

TEST(ActivationTest, WithoutFmaAgreesToAFewUlp) {
  const std::vector<float> x = testing::NormalValues(1000, 0, 3, 1);
  ForEachIsa(IsaSet::kAll, [&] {
    for (const Function& function : kFunctions) {
      const std::vector<float> actual = Apply(function.activation, x);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(actual[i], function.exact(static_cast<double>(x[i])),
                    1e-6 * std::abs(x[i]));
      }
    }
  });
}

TEST(ActivationTest, GatesRowsOfAnyWidthAndStride) {
  const int64_t num_rows = 5;
  for (const int64_t width : {1, 7, 16, 33, 5000}) {
    const int64_t stride = 2 * width;  // gate and up side by side
    const std::vector<float> rows =
        testing::NormalValues(num_rows * stride, 0, 2, 2);
    ThreadTeam team(2);
    std::vector<float> dst(static_cast<size_t>(num_rows * width));
    Activate(team, Activation::kSilu,
             {.gate = rows.data(),
              .up = rows.data() + width,
              .num_rows = num_rows,
              .width = width,
              .row_stride = stride},
             dst.data());
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        const float gate = rows[static_cast<size_t>(row * stride + i)];
        const float up = rows[static_cast<size_t>(row * stride + width + i)];
        ASSERT_EQ(dst[static_cast<size_t>(row * width + i)],
                  testing::SiluInOrder(gate) * up);
      }
    }
  }
}

TEST(ActivationTest, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Function& function : kFunctions) {
    ForEachIsa(IsaSet::kAll, [&] {
      EXPECT_TRUE(std::isnan(Apply(function.activation, {1, nan, 2})[1]));
    });
  }
}

}  // namespace
}  // namespace headrace
