// Each rule alone, on its candidates.
#include "engine/sampling/sampling_rule.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Scene {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<int32_t> prompt;
  std::vector<int32_t> generated;
  std::vector<int32_t> end_token_ids;
  int64_t min_tokens = 0;
};

using Kept = std::vector<std::pair<int32_t, float>>;

// What the rules leave: ids and logits.
Kept Apply(std::initializer_list<const SamplingRule*> rules,
           const Scene& scene) {
  TokenHistory history;
  history.AddPrompt(scene.prompt);
  for (int32_t token : scene.generated) history.AddGenerated(token);
  const RuleInputs inputs = {
      .params = scene.params,
      .history = history,
      .end_token_ids = scene.end_token_ids,
      .min_tokens = scene.min_tokens,
      .num_generated = static_cast<int64_t>(scene.generated.size())};
  Candidates candidates;
  candidates.Reset(scene.logits);
  for (const SamplingRule* rule : rules) {
    if (rule->is_active(inputs)) rule->apply(inputs, candidates);
  }
  Kept kept;
  for (size_t i = 0; i < candidates.size(); ++i) {
    kept.emplace_back(candidates.id(i), candidates.logits()[i]);
  }
  return kept;
}

std::vector<float> Logits(const Kept& kept) {
  std::vector<float> logits;
  for (const auto& [id, logit] : kept) logits.push_back(logit);
  return logits;
}

std::vector<int32_t> Ids(const Kept& kept) {
  std::vector<int32_t> ids;
  for (const auto& [id, logit] : kept) ids.push_back(id);
  return ids;
}

// Natural logs of probabilities that sum to 1, behind the temperature rule.
std::vector<int32_t> Filter(const SamplingRule& rule,
                            const std::vector<double>& probabilities,
                            const SamplingParams& params) {
  Scene scene{.params = params};
  for (double p : probabilities) {
    scene.logits.push_back(static_cast<float>(std::log(p)));
  }
  return Ids(Apply({&kTemperatureRule, &rule}, scene));
}

TEST(AllowedTokensRuleTest, KeepsOnlyThese) {
  EXPECT_EQ(Apply({&kAllowedTokensRule},
                  {.logits = {1, 2, 3, 4},
                   .params = {.allowed_token_ids = {1, 3, 9}}}),
            (Kept{{1, 2.0F}, {3, 4.0F}}));
}

TEST(LogitBiasRuleTest, AddsAndBans) {
  EXPECT_THAT(
      Logits(Apply({&kLogitBiasRule},
                   {.logits = {1, 2, 3},
                    .params = {.logit_bias = {{0, -0.5F}, {2, -kInf}}}})),
      ElementsAre(0.5F, 2, -kInf));
}

TEST(LogitBiasRuleTest, FindsTokensAmongAllowedOnes) {
  EXPECT_THAT(Logits(Apply({&kAllowedTokensRule, &kLogitBiasRule},
                           {.logits = {1, 2, 3, 4},
                            .params = {.logit_bias = {{3, 10}, {1, 10}},
                                       .allowed_token_ids = {0, 3}}})),
              ElementsAre(1, 14));
}

TEST(LogitBiasRuleTest, NeverReachesInfinity) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_THAT(
      Logits(Apply({&kLogitBiasRule},
                   {.logits = {kMax, -kMax},
                    .params = {.logit_bias = {{0, kMax}, {1, -kMax}}}})),
      ElementsAre(kMax, -kMax));
}

// huggingface/transformers#2302: negative logits are multiplied.
TEST(RepetitionPenaltyRuleTest, LowersLogitsOfEitherSign) {
  EXPECT_THAT(Logits(Apply({&kRepetitionPenaltyRule},
                           {.logits = {-2, 1, 3},
                            .params = {.repetition_penalty = 2},
                            .prompt = {0},
                            .generated = {1}})),
              ElementsAre(-4, 0.5F, 3));
}

// NVIDIA-NeMo/Speech#8194: once, however often the token came.
TEST(RepetitionPenaltyRuleTest, CountsATokenOnce) {
  EXPECT_THAT(Logits(Apply({&kRepetitionPenaltyRule},
                           {.logits = {-2, 1, 3},
                            .params = {.repetition_penalty = 2},
                            .prompt = {1, 1, 0},
                            .generated = {1, 1, 1}})),
              ElementsAre(-4, 0.5F, 3));
}

TEST(RepetitionPenaltyRuleTest, StepsOverIdsWithoutACandidate) {
  EXPECT_THAT(Logits(Apply({&kRepetitionPenaltyRule},
                           {.logits = {4, 4},
                            .params = {.repetition_penalty = 2},
                            .prompt = {7, 1}})),
              ElementsAre(4, 2));
}

TEST(PresenceFrequencyPenaltyRuleTest, CountsGeneratedTokensOnly) {
  EXPECT_THAT(Logits(Apply({&kPresenceFrequencyPenaltyRule},
                           {.logits = {1, 1, 1, 1},
                            .params = {.presence_penalty = 0.5,
                                       .frequency_penalty = 0.25},
                            .prompt = {0, 0, 1},
                            .generated = {1, 2, 2}})),
              ElementsAre(1, 0.25F, 0, 1));
}

TEST(PresenceFrequencyPenaltyRuleTest, MayReward) {
  EXPECT_THAT(Logits(Apply({&kPresenceFrequencyPenaltyRule},
                           {.logits = {1, 1},
                            .params = {.presence_penalty = -2},
                            .generated = {1}})),
              ElementsAre(1, 3));
}

TEST(MinTokensRuleTest, BansEndTokensUntilThen) {
  Scene scene{.logits = {1, 2, 3},
              .generated = {0},
              .end_token_ids = {1, 2, 99},
              .min_tokens = 2};
  EXPECT_THAT(Logits(Apply({&kMinTokensRule}, scene)),
              ElementsAre(1, -kInf, -kInf));
  scene.generated.push_back(0);
  EXPECT_THAT(Logits(Apply({&kMinTokensRule}, scene)), ElementsAre(1, 2, 3));
}

TEST(TemperatureRuleTest, DividesDistancesFromTheLargest) {
  EXPECT_THAT(
      Logits(Apply({&kTemperatureRule},
                   {.logits = {1, 5, 3}, .params = {.temperature = 0.5}})),
      ElementsAre(-8, 0, -4));
}

TEST(TemperatureRuleTest, DropsTheBannedAndTheImpossible) {
  EXPECT_THAT(Ids(Apply({&kTemperatureRule},
                        {.logits = {-3, -kInf, 5, std::nanf(""), 5},
                         .params = {.temperature = 1.2e-38}})),
              ElementsAre(2, 4));
}

TEST(TopKRuleTest, KeepsTheLikeliestAndTheLowerIdsOfEquals) {
  const Scene scene{.logits = {3, 5, 3, 1, 3, 4}};
  const auto top = [&](int64_t k) {
    Scene with_k = scene;
    with_k.params.top_k = k;
    return Ids(Apply({&kTopKRule}, with_k));
  };
  EXPECT_THAT(top(1), ElementsAre(1));
  EXPECT_THAT(top(3), ElementsAre(0, 1, 5));
  EXPECT_THAT(top(4), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(top(6), ElementsAre(0, 1, 2, 3, 4, 5));
}

// ml-explore/mlx-lm#1912.
TEST(TopKRuleTest, ZeroAndMoreThanThereAreIsOff) {
  for (const int64_t k :
       {int64_t{0}, int64_t{7}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(
        Apply({&kTopKRule}, {.logits = {3, 5, 3, 1}, .params = {.top_k = k}})
            .size(),
        4);
  }
}

TEST(TopKRuleTest, LargeKIsExactToo) {
  Scene scene;
  for (int i = 0; i < 5000; ++i) {
    scene.logits.push_back(static_cast<float>(i * 7919 % 5000));
  }
  for (const int64_t k : {1024, 1025, 4999}) {
    scene.params.top_k = k;
    const Kept kept = Apply({&kTopKRule}, scene);
    EXPECT_EQ(kept.size(), k);
    for (const auto& [id, logit] : kept) {
      EXPECT_GE(logit, static_cast<float>(5000 - k));
    }
  }
}

TEST(TopPRuleTest, KeepsTheFewestThatHoldTheMass) {
  const std::vector<double> p = {0.1, 0.4, 0.05, 0.3, 0.15};
  EXPECT_THAT(Filter(kTopPRule, p, {.top_p = 0.39}), ElementsAre(1));
  EXPECT_THAT(Filter(kTopPRule, p, {.top_p = 0.41}), ElementsAre(1, 3));
  EXPECT_THAT(Filter(kTopPRule, p, {.top_p = 0.84}), ElementsAre(1, 3, 4));
  EXPECT_THAT(Filter(kTopPRule, p, {.top_p = 0.86}), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(Filter(kTopPRule, p, {.top_p = 1}), ElementsAre(0, 1, 2, 3, 4));
}

// paiml/aprender#2314: a tiny top_p keeps the top token, not nothing.
TEST(TopPRuleTest, AlwaysKeepsTheLikeliest) {
  for (const double top_p : {1e-8, 1e-45, 1e-300}) {
    EXPECT_THAT(Filter(kTopPRule, {0.3, 0.4, 0.3}, {.top_p = top_p}),
                ElementsAre(1));
    EXPECT_THAT(Filter(kTopPRule, {0.25, 0.25, 0.25, 0.25}, {.top_p = top_p}),
                ElementsAre(0));
  }
}

TEST(TopPRuleTest, TiesGoToTheLowerIds) {
  EXPECT_THAT(Filter(kTopPRule, {0.25, 0.25, 0.25, 0.25}, {.top_p = 0.6}),
              ElementsAre(0, 1, 2));
}

// Entropy 1.2206; surprises 0.693, 1.386, 2.079, 2.079.
TEST(TypicalPRuleTest, KeepsWhatIsNearestToTheEntropy) {
  const std::vector<double> p = {0.5, 0.25, 0.125, 0.125};
  EXPECT_THAT(Filter(kTypicalPRule, p, {.typical_p = 0.2}), ElementsAre(1));
  EXPECT_THAT(Filter(kTypicalPRule, p, {.typical_p = 0.3}), ElementsAre(0, 1));
  EXPECT_THAT(Filter(kTypicalPRule, p, {.typical_p = 0.8}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(Filter(kTypicalPRule, p, {.typical_p = 0.9}),
              ElementsAre(0, 1, 2, 3));
}

TEST(MinPRuleTest, KeepsWhatIsNearTheLikeliest) {
  const std::vector<double> p = {0.1, 0.4, 0.05, 0.3, 0.15};
  EXPECT_THAT(Filter(kMinPRule, p, {.min_p = 0.3}), ElementsAre(1, 3, 4));
  EXPECT_THAT(Filter(kMinPRule, p, {.min_p = 0.8}), ElementsAre(1));
  EXPECT_THAT(Filter(kMinPRule, p, {.min_p = 1}), ElementsAre(1));
  EXPECT_THAT(Filter(kMinPRule, {0.4, 0.2, 0.4}, {.min_p = 1}),
              ElementsAre(0, 2));
}

TEST(RulesTest, AreInactiveByDefault) {
  const SamplingParams params;
  const TokenHistory history;
  const RuleInputs inputs = {.params = params, .history = history};
  for (const SamplingRule* rule :
       {&kAllowedTokensRule, &kLogitBiasRule, &kRepetitionPenaltyRule,
        &kPresenceFrequencyPenaltyRule, &kMinTokensRule, &kTopKRule,
        &kTypicalPRule, &kTopPRule, &kMinPRule}) {
    EXPECT_FALSE(rule->is_active(inputs));
  }
}

TEST(TokenHistoryTest, CountsEachTokenInOneEntry) {
  TokenHistory history;
  history.AddPrompt(std::vector<int32_t>{5, 6, 5});
  history.AddGenerated(6);
  history.AddGenerated(9);
  history.AddGenerated(6);

  ASSERT_EQ(history.entries().size(), 3);
  EXPECT_EQ(history.entries()[0].token, 5);
  EXPECT_EQ(history.entries()[0].generated, 0);
  EXPECT_EQ(history.entries()[1].token, 6);
  EXPECT_EQ(history.entries()[1].generated, 2);
  EXPECT_EQ(history.entries()[2].generated, 1);
}

}  // namespace
}  // namespace headrace
