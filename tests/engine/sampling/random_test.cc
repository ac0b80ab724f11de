#include "engine/sampling/random.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using Words = std::array<uint32_t, 4>;

// Random123's known answers (kat_vectors, philox4x32 with 10 rounds).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Made by a few lines of Python; a change here changes every seeded answer.
TEST(UniformDrawTest, IsReproducible) {
  EXPECT_EQ(UniformDraw(0, 0, 0), 0.8805201978886142);
  EXPECT_EQ(UniformDraw(0, 0, 1), 0.36209111566940344);
  EXPECT_EQ(UniformDraw(0, 1, 0), 0.9396580854702459);
  EXPECT_EQ(UniformDraw(1, 0, 0), 0.8946847163350924);
  EXPECT_EQ(UniformDraw(9007199254740992, 0, 0), 0.9423240401050339);
  EXPECT_EQ(UniformDraw(9007199254740993, 0, 0), 0.7888173052970445);
  EXPECT_EQ(UniformDraw(18446744073709551615U, 3, 4294967301),
            0.14175574710785266);
}

// Blaizzy/mlx-vlm#1844, ggml-org/llama.cpp#2002: seeds that lose bits.
TEST(UniformDrawTest, EveryBitOfSeedChoiceAndStepCounts) {
  std::set<double> draws = {UniformDraw(0, 0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    draws.insert(UniformDraw(uint64_t{1} << bit, 0, 0));
  }
  for (int bit = 0; bit < 31; ++bit) {
    draws.insert(UniformDraw(0, 1 << bit, 0));
  }
  for (int bit = 0; bit < 63; ++bit) {
    draws.insert(UniformDraw(0, 0, int64_t{1} << bit));
  }
  EXPECT_EQ(draws.size(), 1 + 64 + 31 + 63);
}

// Chi-square of 64 equal cells: 63 degrees of freedom, 99.99th percentile 114.
double ChiSquareOf64(const std::vector<double>& draws) {
  std::vector<int> counts(64);
  for (double draw : draws) ++counts[static_cast<size_t>(draw * 64)];
  const double expected = static_cast<double>(draws.size()) / 64;
  double chi_square = 0;
  for (int count : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  return chi_square;
}

TEST(UniformDrawTest, IsUniformAlongSteps) {
  std::vector<double> draws;
  for (int64_t step = 0; step < 64000; ++step) {
    draws.push_back(UniformDraw(42, 0, step));
    ASSERT_GE(draws.back(), 0);
    ASSERT_LT(draws.back(), 1);
  }
  EXPECT_LT(ChiSquareOf64(draws), 114);
}

TEST(UniformDrawTest, IsUniformAcrossSeedsAndChoices) {
  std::vector<double> by_seed;
  std::vector<double> by_choice;
  for (int32_t i = 0; i < 64000; ++i) {
    by_seed.push_back(UniformDraw(static_cast<uint64_t>(i), 0, 0));
    by_choice.push_back(UniformDraw(0, i, 0));
  }
  EXPECT_LT(ChiSquareOf64(by_seed), 114);
  EXPECT_LT(ChiSquareOf64(by_choice), 114);
}

// Correlation of n independent pairs has a standard deviation of 1 / sqrt(n).
TEST(UniformDrawTest, NeighbouringStreamsAreUncorrelated) {
  constexpr int kDraws = 20000;
  for (const auto& [seed, choice] :
       {std::pair<uint64_t, int32_t>{43, 0}, {42, 1}, {42 | 1ULL << 32, 0}}) {
    double sum = 0;
    for (int64_t step = 0; step < kDraws; ++step) {
      sum += (UniformDraw(42, 0, step) - 0.5) *
             (UniformDraw(seed, choice, step) - 0.5);
    }
    EXPECT_LT(std::abs(sum * 12 / kDraws), 4 / std::sqrt(kDraws));
  }
}

}  // namespace
}  // namespace headrace
