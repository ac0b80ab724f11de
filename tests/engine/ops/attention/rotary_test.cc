#include "engine/ops/rotary.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/attention/elementwise_reference.h"
#include "tests/engine/ops/attention/isa_sweep.h"

namespace headrace {
namespace {

using testing::ForEachIsa;
using testing::IsaSet;
using testing::NormalValues;

struct Angles {
  std::vector<float> cos;
  std::vector<float> sin;
};

// Of theta 10000 in float64.
Angles AnglesAt(const std::vector<int64_t>& positions, int64_t rotary_dim) {
  Angles angles;
  for (const int64_t position : positions) {
    for (int64_t i = 0; i < rotary_dim / 2; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(1e4, -2.0 * static_cast<double>(i) /
                                             static_cast<double>(rotary_dim));
      angles.cos.push_back(static_cast<float>(std::cos(angle)));
      angles.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return angles;
}

// One head of one row.
std::vector<float> RotateHead(std::vector<float> head, int64_t position,
                              int64_t rotary_dim, PairLayout layout) {
  ThreadTeam team(1);
  const Angles angles = AnglesAt({position}, rotary_dim);
  const int64_t head_dim = static_cast<int64_t>(head.size());
  ApplyRotary(team, {.heads = head.data(),
                     .num_rows = 1,
                     .num_heads = 1,
                     .head_dim = head_dim,
                     .row_stride = head_dim,
                     .rotary_dim = rotary_dim,
                     .cos = angles.cos.data(),
                     .sin = angles.sin.data(),
                     .layout = layout});
  return head;
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

void ExpectNear(const std::vector<float>& actual,
                const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    // Values up to 5 in float32: two products and a sum.
    EXPECT_NEAR(actual[i], expected[i], 1e-6) << i;
  }
}

// The paper's formula, computed with 30 digits.
TEST(RotaryTest, RotatesTheKnownVector) {
  ExpectNear(RotateHead({1, 2, 3, 4}, 3, 4, PairLayout::kInterleaved),
             {-1.2722325, -1.8388650, 2.8786681, 4.0881866});
  ExpectNear(RotateHead({1, 2, 3, 4}, 3, 4, PairLayout::kHalfSplit),
             {-1.4133525, 1.8791181, -2.8288575, 4.0581911});
}

TEST(RotaryTest, ProductsDependOnTheDistanceOnly) {
  const std::vector<float> q = {1, 2, 3, 4};
  const std::vector<float> k = {0.5f, -1, 2, 0.25f};
  for (const auto& [i, j] :
       {std::pair{5, 2}, std::pair{105, 102}, std::pair{1003, 1000}}) {
    EXPECT_NEAR(Dot(RotateHead(q, i, 4, PairLayout::kInterleaved),
                    RotateHead(k, j, 4, PairLayout::kInterleaved)),
                7.9821315886, 3e-6);
    EXPECT_NEAR(Dot(RotateHead(q, i, 4, PairLayout::kHalfSplit),
                    RotateHead(k, j, 4, PairLayout::kHalfSplit)),
                -7.2289615067, 3e-6);
  }
}

TEST(RotaryTest, LeavesLanesBeyondTheRotaryWidth) {
  for (const PairLayout layout :
       {PairLayout::kHalfSplit, PairLayout::kInterleaved}) {
    const std::vector<float> head = NormalValues(80, 0, 1, 1);
    const std::vector<float> rotated = RotateHead(head, 7, 20, layout);
    const std::vector<float> alone =
        RotateHead({head.begin(), head.begin() + 20}, 7, 20, layout);
    EXPECT_EQ(std::vector<float>(rotated.begin(), rotated.begin() + 20), alone);
    EXPECT_EQ(std::vector<float>(rotated.begin() + 20, rotated.end()),
              std::vector<float>(head.begin() + 20, head.end()));
  }
}

TEST(RotaryTest, EqualsScalarCodeOnEveryInstructionSet) {
  const int64_t num_rows = 40;
  const int64_t num_heads = 3;
  for (const int64_t rotary_dim : {2, 8, 20, 34, 64, 128}) {
    const int64_t head_dim = rotary_dim + 4;
    const int64_t row_stride = num_heads * head_dim + 5;
    const std::vector<float> heads =
        NormalValues(num_rows * row_stride, 0, 1, 2);
    const std::vector<float> cos =
        NormalValues(num_rows * rotary_dim / 2, 0, 1, 3);
    const std::vector<float> sin =
        NormalValues(num_rows * rotary_dim / 2, 0, 1, 4);
    for (const PairLayout layout :
         {PairLayout::kHalfSplit, PairLayout::kInterleaved}) {
      const bool split = layout == PairLayout::kHalfSplit;
      std::vector<float> expected = heads;
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int64_t lane = 0; lane < num_heads * rotary_dim / 2; ++lane) {
          const int64_t i = lane % (rotary_dim / 2);
          float* head = expected.data() + row * row_stride +
                        lane / (rotary_dim / 2) * head_dim;
          float& x = split ? head[i] : head[2 * i];
          float& y = split ? head[i + rotary_dim / 2] : head[2 * i + 1];
          const auto at = static_cast<size_t>(row * rotary_dim / 2 + i);
          const float xc = x * cos[at];
          const float xs = x * sin[at];
          const float yc = y * cos[at];
          const float ys = y * sin[at];
          x = xc - ys;
          y = yc + xs;
        }
      }
      ForEachIsa(IsaSet::kAll, [&] {
        ThreadTeam team(2);
        std::vector<float> actual = heads;
        ApplyRotary(team, {.heads = actual.data(),
                           .num_rows = num_rows,
                           .num_heads = num_heads,
                           .head_dim = head_dim,
                           .row_stride = row_stride,
                           .rotary_dim = rotary_dim,
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .layout = layout});
        EXPECT_EQ(actual, expected) << rotary_dim;
      });
    }
  }
}

}  // namespace
}  // namespace headrace
