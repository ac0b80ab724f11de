// The whole chain against a plain float64 one, the draw's statistics, and what
// a request may count on.
#include "engine/sampling/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/sampling/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/sampling_oracle.h"

namespace headrace {
namespace {

using reference::SamplingCase;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(size_t size, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

Sampler MakeSampler(const SamplingCase& sampling) {
  Sampler sampler(
      sampling.params,
      {.num_real_tokens = static_cast<int64_t>(sampling.num_real_tokens),
       .end_token_ids = sampling.end_token_ids,
       .min_tokens = sampling.min_tokens},
      sampling.prompt);
  for (int32_t token : sampling.generated) sampler.Accept(token);
  return sampler;
}

absl::StatusOr<int32_t> Sample(const std::vector<float>& logits,
                               SamplingParams params) {
  Candidates scratch;
  return MakeSampler(
             {.params = std::move(params), .num_real_tokens = logits.size()})
      .Sample(logits, scratch);
}

// The token at `point` of the cumulated distribution; -1 when it is too near a
// border for float32 to decide.
int32_t TokenAt(const std::vector<double>& probabilities, double point) {
  // float32 exponentials are right to 2e-7 each.
  constexpr double kDoubt = 1e-6;
  double sum = 0;
  for (size_t id = 0; id < probabilities.size(); ++id) {
    sum += probabilities[id];
    if (std::abs(sum - point) < kDoubt && probabilities[id] > 0) return -1;
    if (sum > point) return static_cast<int32_t>(id);
  }
  return -1;
}

struct RandomCase {
  std::vector<float> logits;
  SamplingCase sampling;
};

RandomCase MakeRandomCase(uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](uint32_t n) { return random() % n == 0; };
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  const size_t size = one_in(4) ? 3000 : 50;
  RandomCase out;
  out.logits = RandomLogits(size, seed, 3);
  SamplingCase& sampling = out.sampling;
  sampling.num_real_tokens = one_in(3) ? size - 7 : size;
  const auto token = [&] { return static_cast<int32_t>(random() % size); };
  for (int i = 0; i < 20; ++i) {
    sampling.prompt.push_back(token());
    if (one_in(2)) sampling.generated.push_back(token());
  }
  SamplingParams& params = sampling.params;
  params.seed = seed;
  params.temperature = pick({0.3, 0.8, 1, 1.5});
  if (one_in(2)) params.top_k = static_cast<int64_t>(random() % size);
  if (one_in(2)) params.top_p = pick({0.05, 0.5, 0.9, 0.99});
  if (one_in(3)) params.typical_p = pick({0.1, 0.5, 0.95});
  if (one_in(3)) params.min_p = pick({0.001, 0.05, 0.5});
  if (one_in(3)) params.repetition_penalty = pick({0.7, 1.1, 1.5});
  if (one_in(3)) params.presence_penalty = pick({-1, 0.5, 2});
  if (one_in(3)) params.frequency_penalty = pick({-1, 0.5, 2});
  if (one_in(3)) {
    params.logit_bias = {{3, 4.5F}, {token() % 3, -kInf}, {7, -2}};
  }
  if (one_in(4)) {
    for (int i = 0; i < 10; ++i) params.allowed_token_ids.push_back(token());
    params.allowed_token_ids.push_back(3);
  }
  sampling.end_token_ids = {5, 9};
  sampling.min_tokens = one_in(2) ? 100 : 0;
  return out;
}

TEST(SamplerTest, DrawsWhatAPlainFloat64SamplerDraws) {
  Candidates scratch;
  int decided = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const RandomCase random_case = MakeRandomCase(seed);
    const SamplingCase& sampling = random_case.sampling;
    const std::vector<double> probabilities =
        reference::Probabilities(random_case.logits, sampling);
    const double point =
        UniformDraw(seed, 0, static_cast<int64_t>(sampling.generated.size()));
    const int32_t expected = TokenAt(probabilities, point);
    const absl::StatusOr<int32_t> token =
        MakeSampler(sampling).Sample(random_case.logits, scratch);
    ASSERT_TRUE(token.ok()) << seed;
    if (expected < 0) continue;
    EXPECT_EQ(*token, expected) << "seed " << seed;
    ++decided;
  }
  EXPECT_GT(decided, 2900);
}

TEST(SamplerTest, GreedyTakesTheLargestRuledLogit) {
  Candidates scratch;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomCase random_case = MakeRandomCase(seed);
    random_case.sampling.params.temperature = 0;
    const std::vector<double> ruled =
        reference::RuledLogits(random_case.logits, random_case.sampling);
    const auto largest = std::max_element(ruled.begin(), ruled.end());

    const absl::StatusOr<int32_t> token =
        MakeSampler(random_case.sampling).Sample(random_case.logits, scratch);
    ASSERT_TRUE(token.ok());
    EXPECT_EQ(*token, largest - ruled.begin()) << "seed " << seed;
  }
}

TEST(SamplerTest, GreedyTiesGoToTheLowestId) {
  EXPECT_EQ(*Sample({1, 7, 3, 7, 7}, {.temperature = 0}), 1);
  EXPECT_EQ(*Sample({1, 7, 3, 7, 7}, {.temperature = 1e-45}), 1);
  EXPECT_EQ(*Sample({0, 0, 0}, {.temperature = -0.0}), 0);
}

// ml-explore/mlx-lm#1912, sgl-project/sglang#40099: settings that leave one
// token are greedy.
TEST(SamplerTest, NarrowestSettingsAreGreedy) {
  const std::vector<float> logits = RandomLogits(5000, 4, 2);
  const int32_t greedy = *Sample(logits, {.temperature = 0});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(*Sample(logits, {.top_p = 1e-8, .seed = seed}), greedy);
    EXPECT_EQ(*Sample(logits, {.top_p = 1e-45, .seed = seed}), greedy);
    EXPECT_EQ(*Sample(logits, {.min_p = 1.0, .seed = seed}), greedy);
    EXPECT_EQ(*Sample(logits, {.top_k = 1, .seed = seed}), greedy);
    EXPECT_EQ(*Sample(logits, {.temperature = 1e-37, .seed = seed}), greedy);
  }
}

TEST(SamplerTest, TopKZeroUnsetAndBeyondTheVocabularyAreTheSame) {
  const std::vector<float> logits = RandomLogits(5000, 5, 2);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const int32_t unset = *Sample(logits, {.seed = seed});
    EXPECT_EQ(*Sample(logits, {.top_k = 0, .seed = seed}), unset);
    EXPECT_EQ(*Sample(logits, {.top_k = 1000000, .seed = seed}), unset);
  }
}

// Chi-square of 9 degrees of freedom: 99.99th percentile 33.7.
TEST(SamplerTest, DrawsFollowTheDistribution) {
  const std::vector<float> logits = RandomLogits(10, 6, 1.5);
  SamplingCase sampling{.params = {.temperature = 1.3, .seed = 77},
                        .num_real_tokens = 10};
  const std::vector<double> probabilities =
      reference::Probabilities(logits, sampling);
  Candidates scratch;
  for (const bool along_steps : {true, false}) {
    constexpr int kDraws = 50000;
    std::vector<int> counts(10);
    Sampler sampler = MakeSampler(sampling);
    for (int i = 0; i < kDraws; ++i) {
      if (!along_steps) {
        sampling.params.seed = static_cast<uint64_t>(i) << 20;
        sampler = MakeSampler(sampling);
      }
      const int32_t token = *sampler.Sample(logits, scratch);
      ++counts[static_cast<size_t>(token)];
      sampler.Accept(token);
    }
    double chi_square = 0;
    for (size_t id = 0; id < 10; ++id) {
      const double expected = kDraws * probabilities[id];
      chi_square += std::pow(counts[id] - expected, 2) / expected;
    }
    EXPECT_LT(chi_square, 33.7);
  }
}

std::vector<int32_t> SampleMany(Sampler sampler, int count) {
  const std::vector<float> logits = RandomLogits(1000, 8, 1);
  Candidates scratch;
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(*sampler.Sample(logits, scratch));
    sampler.Accept(tokens.back());
  }
  return tokens;
}

Sampler Seeded(uint64_t seed, int32_t choice = 0) {
  return Sampler({.seed = seed}, {.choice = choice, .num_real_tokens = 1000},
                 {});
}

TEST(SamplerTest, SeedAndChoiceFixTheTokens) {
  EXPECT_EQ(SampleMany(Seeded(5), 20), SampleMany(Seeded(5), 20));
  EXPECT_NE(SampleMany(Seeded(5), 20), SampleMany(Seeded(6), 20));
  EXPECT_NE(SampleMany(Seeded(5), 20), SampleMany(Seeded(5, 1), 20));
  EXPECT_NE(SampleMany(Seeded(9007199254740992), 20),
            SampleMany(Seeded(9007199254740993), 20));
}

// Made by a few lines of Python; a change here changes the answer to every
// seeded request.
TEST(SamplerTest, TokensOfASeedAreTheSameOnEveryMachine) {
  std::vector<float> logits(16);
  for (size_t i = 0; i < 16; ++i) {
    logits[i] = static_cast<float>(i * 5 % 16) / 4;
  }
  Sampler sampler({.temperature = 0.75, .top_k = 9, .top_p = 0.95, .seed = 123},
                  {.num_real_tokens = 16}, {});
  Candidates scratch;
  std::vector<int32_t> tokens;
  for (int i = 0; i < 12; ++i) {
    tokens.push_back(*sampler.Sample(logits, scratch));
    sampler.Accept(tokens.back());
  }
  EXPECT_THAT(tokens, ElementsAre(5, 6, 3, 3, 3, 9, 12, 5, 3, 3, 3, 6));
}

TEST(SamplerTest, SampleChangesNothing) {
  const Sampler sampler = Seeded(3);
  const std::vector<float> logits = RandomLogits(1000, 8, 1);
  Candidates scratch;
  const int32_t token = *sampler.Sample(logits, scratch);

  EXPECT_EQ(*sampler.Sample(logits, scratch), token);
  EXPECT_EQ(sampler.num_generated(), 0);
}

// ikawrakow/ik_llama.cpp#2475: nothing of one request stays for the next.
TEST(SamplerTest, SharedScratchKeepsNothing) {
  const std::vector<float> logits = RandomLogits(1000, 8, 1);
  Candidates shared;
  const Sampler strange({.temperature = 1.3,
                         .top_k = 5,
                         .logit_bias = {{2, -100}},
                         .allowed_token_ids = {1, 2, 3}},
                        {.num_real_tokens = 1000}, {});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Candidates own;
    const int32_t alone = *Seeded(seed).Sample(logits, own);
    ASSERT_TRUE(strange.Sample(logits, shared).ok());
    EXPECT_EQ(*Seeded(seed).Sample(logits, shared), alone);
  }
}

// huggingface/transformers#35797: rows of a padded vocabulary have no piece.
TEST(SamplerTest, IdsWithoutAPieceAreNeverSampled) {
  const std::vector<float> logits = {1, 2, 3, 90, 80};
  Candidates scratch;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Sampler sampler({.seed = seed}, {.num_real_tokens = 3}, {});
    EXPECT_LT(*sampler.Sample(logits, scratch), 3);
  }
  const Sampler greedy({.temperature = 0}, {.num_real_tokens = 3}, {});
  EXPECT_EQ(*greedy.Sample(logits, scratch), 2);
}

TEST(SamplerTest, BanningEveryTokenIsAnError) {
  const std::vector<float> logits = {1, 2, 3};
  for (const double temperature : {0.0, 1.0}) {
    const SamplingParams banned = {.temperature = temperature,
                                   .logit_bias = {{2, -kInf}},
                                   .allowed_token_ids = {2}};
    const absl::Status status = Sample(logits, banned).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("no token can be sampled"));
  }
}

// The engine refuses such logits; here they must only not crash.
TEST(SamplerTest, NonFiniteLogitsDoNotCrash) {
  const float nan = std::nanf("");
  for (const double temperature : {0.0, 1.0}) {
    const SamplingParams params = {
        .temperature = temperature, .top_k = 2, .top_p = 0.5, .min_p = 0.1};
    EXPECT_EQ(*Sample({nan, 1, nan}, params), 1);
    EXPECT_FALSE(Sample({nan, nan}, params).ok());
    EXPECT_FALSE(Sample({-kInf, -kInf}, params).ok());
    EXPECT_FALSE(Sample({}, params).ok());
    (void)Sample({kInf, 1, kInf, nan}, params);
    (void)Sample({3e38F, -3e38F, 3e38F}, params);
  }
}

TEST(SamplerTest, ExtremePenaltiesKeepLogitsFinite) {
  Candidates scratch;
  const std::vector<float> logits = {1, -1, 0.5F};
  Sampler sampler({.repetition_penalty = 1e-300,
                   .presence_penalty = 1e300,
                   .frequency_penalty = -1e300},
                  {.num_real_tokens = 3}, std::vector<int32_t>{0, 1});
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<int32_t> token = sampler.Sample(logits, scratch);
    ASSERT_TRUE(token.ok()) << token.status();
    sampler.Accept(*token);
  }
}

TEST(SamplerTest, MinTokensHoldsEveryEndTokenBack) {
  Sampler sampler(
      {.temperature = 0},
      {.num_real_tokens = 4, .end_token_ids = {3, 2}, .min_tokens = 2}, {});
  const std::vector<float> logits = {0, 1, 2, 3};
  Candidates scratch;
  for (const int32_t expected : {1, 1, 3, 3}) {
    EXPECT_EQ(*sampler.Sample(logits, scratch), expected);
    sampler.Accept(expected);
  }
}

}  // namespace
}  // namespace headrace
