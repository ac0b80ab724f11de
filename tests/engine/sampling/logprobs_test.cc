#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - largest);
  std::vector<double> logprobs;
  for (double logit : logits) {
    logprobs.push_back(logit - largest - std::log(sum));
  }
  return logprobs;
}

std::vector<float> RandomLogits(size_t size, float scale) {
  std::mt19937 random(size);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(LogprobsTest, AreNaturalLogsOfTheSoftmax) {
  for (const auto& [size, scale] : {std::pair<size_t, float>{1, 3},
                                    {2, 3},
                                    {261, 10},
                                    {49152, 1},
                                    {49152, 20}}) {
    const std::vector<float> logits = RandomLogits(size, scale);
    const std::vector<double> expected = LogSoftmax(logits);
    for (size_t token = 0; token < size; token += size / 7 + 1) {
      const PositionLogprobs logprobs =
          ComputeLogprobs(logits, 5, static_cast<int32_t>(token), {});
      // Half a float32 ulp of the result; the float32 exponentials' own
      // errors average out in the sum.
      EXPECT_NEAR(logprobs.token.logprob, expected[token],
                  6e-8 * std::abs(expected[token]) + 1e-7);
      EXPECT_EQ(logprobs.token.token, token);
      EXPECT_EQ(logprobs.position, 5);
    }
  }
}

TEST(LogprobsTest, SumToOne) {
  const std::vector<float> logits = RandomLogits(300, 4);
  const PositionLogprobs logprobs =
      ComputeLogprobs(logits, 0, 0, {.top_n = 300});
  double sum = 0;
  for (const TokenLogprob& token : logprobs.top) sum += std::exp(token.logprob);

  EXPECT_NEAR(sum, 1, 1e-6);  // 300 float32 logs
}

TEST(LogprobsTest, RanksCountTiesByTheLowerId) {
  const std::vector<float> logits = {2, 7, 7, -1, 7, 2};
  const std::vector<int32_t> ranks = {4, 1, 2, 6, 3, 5};

  for (int32_t token = 0; token < 6; ++token) {
    EXPECT_EQ(ComputeLogprobs(logits, 0, token, {}).token.rank,
              ranks[static_cast<size_t>(token)]);
  }
}

TEST(LogprobsTest, TopIsSortedAndRanked) {
  const std::vector<float> logits = {2, 7, 7, -1, 7, 2};
  const PositionLogprobs logprobs = ComputeLogprobs(logits, 0, 3, {.top_n = 4});

  ASSERT_EQ(logprobs.top.size(), 4);
  const std::vector<int32_t> expected = {1, 2, 4, 0};
  for (size_t i = 0; i < 4; ++i) {
    const TokenLogprob alone =
        ComputeLogprobs(logits, 0, expected[i], {}).token;
    EXPECT_EQ(logprobs.top[i].token, expected[i]);
    EXPECT_EQ(logprobs.top[i].rank, i + 1);
    EXPECT_EQ(logprobs.top[i].rank, alone.rank);
    EXPECT_EQ(logprobs.top[i].logprob, alone.logprob);
  }
}

// mlx-lm#1912: more than the vocabulary has.
TEST(LogprobsTest, TopIsCutAtTheVocabulary) {
  const std::vector<float> logits = {1, 2, 3};

  EXPECT_EQ(ComputeLogprobs(logits, 0, 0, {.top_n = 1000000}).top.size(), 3);
  EXPECT_TRUE(ComputeLogprobs(logits, 0, 0, {}).top.empty());
}

TEST(LogprobsTest, TokensAskedForComeInTheirOrder) {
  const std::vector<float> logits = {1, 2, 3, 4};
  const PositionLogprobs logprobs =
      ComputeLogprobs(logits, 0, 0, {.of_token_ids = {2, 0, 2}});

  ASSERT_EQ(logprobs.of_token_ids.size(), 3);
  EXPECT_EQ(logprobs.of_token_ids[0].token, 2);
  EXPECT_EQ(logprobs.of_token_ids[0].rank, 2);
  EXPECT_EQ(logprobs.of_token_ids[1].logprob, logprobs.token.logprob);
  EXPECT_EQ(logprobs.of_token_ids[2].logprob, logprobs.of_token_ids[0].logprob);
}

TEST(LogprobsTest, AreFiniteForExtremeLogits) {
  const std::vector<float> logits = {3e38F, -3e38F, 0};

  EXPECT_EQ(ComputeLogprobs(logits, 0, 0, {}).token.logprob, 0);
  EXPECT_EQ(ComputeLogprobs(logits, 0, 2, {}).token.logprob, -3e38F);
}

}  // namespace
}  // namespace headrace
