#include "engine/sampling/prefix_select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

PrefixEnd BySorting(const std::vector<float>& keys,
                    const std::vector<float>& weights, double target) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  double sum = 0;
  for (size_t i : order) {
    sum += weights[i];
    if (sum >= target) return {keys[i], i};
  }
  return {keys[order.back()], order.back()};
}

void ExpectAsBySorting(const std::vector<float>& keys,
                       const std::vector<float>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const double share : {1e-9, 0.1, 0.5, 0.9, 0.999, 2.0}) {
    const PrefixEnd expected = BySorting(keys, weights, share * total);
    const PrefixEnd end = ShortestPrefix(keys, weights, share * total);
    EXPECT_EQ(end.key, expected.key) << share;
    EXPECT_EQ(end.index, expected.index) << share;
  }
}

// Whole numbers, so that sums are exact in any order.
std::vector<float> WholeWeights(size_t size, std::mt19937& random) {
  std::vector<float> weights(size);
  for (float& weight : weights)
    weight = static_cast<float>(random() % 1000 + 1);
  return weights;
}

TEST(ShortestPrefixTest, AgreesWithSorting) {
  std::mt19937 random(1);
  for (size_t size : {1, 2, 3, 255, 256, 257, 1000, 20000}) {
    std::vector<float> keys(size);
    for (float& key : keys) {
      key = static_cast<float>(random()) / 4e8F;
    }
    ExpectAsBySorting(keys, WholeWeights(size, random));
  }
}

TEST(ShortestPrefixTest, TiesGoToTheLowerIndex) {
  std::mt19937 random(2);
  std::vector<float> keys(20000);
  for (float& key : keys) key = static_cast<float>(random() % 3);
  ExpectAsBySorting(keys, WholeWeights(keys.size(), random));
  ExpectAsBySorting(std::vector<float>(20000, 1.5F),
                    WholeWeights(20000, random));
}

// Keys that crowd into one slice of their range, at every scale.
TEST(ShortestPrefixTest, CrowdedKeysAreToldApart) {
  std::mt19937 random(3);
  std::vector<float> keys(20000);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::ldexp(static_cast<float>(random() % 1000 + 1),
                         -static_cast<int>(i % 120));
  }
  keys[77] = std::numeric_limits<float>::max();
  keys[78] = 0;
  ExpectAsBySorting(keys, WholeWeights(keys.size(), random));
}

TEST(ShortestPrefixTest, ZeroWeightsAreSteppedOver) {
  const std::vector<float> keys = {3, 1, 2, 0};
  const std::vector<float> weights = {1, 0, 5, 0};

  EXPECT_EQ(ShortestPrefix(keys, weights, 0).index, 2);
  EXPECT_EQ(ShortestPrefix(keys, weights, 0.5).index, 2);
  EXPECT_EQ(ShortestPrefix(keys, weights, 6).index, 0);
}

}  // namespace
}  // namespace headrace
