#include "engine/capture/intervention.h"

#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

std::vector<float> After(const Intervention& intervention) {
  std::vector<float> row = {3, 4, -2};
  Apply(intervention, intervention.vector, row);
  return row;
}

TEST(InterventionTest, AddsAMultipleOfTheVector) {
  EXPECT_EQ(After({.op = InterventionOp::kAdd,
                   .where = {},
                   .rows = {},
                   .vector = {1, 0, 2},
                   .value = 0.5f}),
            (std::vector<float>{3.5f, 4, -1}));
}

TEST(InterventionTest, ScalesTheRow) {
  EXPECT_EQ(After({.op = InterventionOp::kScale, .value = -2}),
            (std::vector<float>{-6, -8, 4}));
}

TEST(InterventionTest, ProjectsADirectionOut) {
  // Along (0, 2, 0), whatever its length.
  const Intervention whole = {.op = InterventionOp::kProjectOut,
                              .where = {},
                              .rows = {},
                              .vector = {0, 2, 0},
                              .value = 1};
  EXPECT_EQ(After(whole), (std::vector<float>{3, 0, -2}));
  Intervention half = whole;
  half.value = 0.5f;
  EXPECT_EQ(After(half), (std::vector<float>{3, 2, -2}));
}

TEST(InterventionTest, CapsAProjection) {
  Intervention cap = {.op = InterventionOp::kCap,
                      .where = {},
                      .rows = {},
                      .vector = {0, 2, 0},
                      .value = 1};
  EXPECT_EQ(After(cap), (std::vector<float>{3, 1, -2}));
  cap.value = 4;  // not above it
  EXPECT_EQ(After(cap), (std::vector<float>{3, 4, -2}));
  cap.vector = {0, 0, 5};  // the projection is negative
  cap.value = 0;
  EXPECT_EQ(After(cap), (std::vector<float>{3, 4, -2}));
}

TEST(InterventionTest, ReplacesAndZeroes) {
  EXPECT_EQ(After({.op = InterventionOp::kReplace,
                   .where = {},
                   .rows = {},
                   .vector = {7, 8, 9}}),
            (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(After({.op = InterventionOp::kZero}),
            (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace headrace
