#include "server/batching/prompt_lookup.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PromptLookup After(const std::vector<int32_t>& tokens) {
  return PromptLookup(tokens);
}

TEST(PromptLookupTest, GuessesWhatFollowedBefore) {
  const PromptLookup lookup = After({1, 2, 3, 4, 5, 6, 9, 1, 2, 3});

  EXPECT_THAT(lookup.Guess(2), ElementsAre(4, 5));
  EXPECT_THAT(lookup.Guess(100), ElementsAre(4, 5, 6, 9, 1, 2, 3));
  EXPECT_THAT(lookup.Guess(0), IsEmpty());
  EXPECT_THAT(lookup.Guess(-1), IsEmpty());
}

TEST(PromptLookupTest, TwoTokensAreNoReason) {
  EXPECT_THAT(After({1, 2, 3, 9, 2, 3}).Guess(4), IsEmpty());
  EXPECT_THAT(After({1, 2}).Guess(4), IsEmpty());
  EXPECT_THAT(After({7}).Guess(4), IsEmpty());
}

TEST(PromptLookupTest, TheLongestRunWinsThenTheLatest) {
  EXPECT_THAT(After({8, 1, 2, 3, 50, 1, 2, 3, 60, 8, 1, 2, 3}).Guess(1),
              ElementsAre(50));
  EXPECT_THAT(After({1, 2, 3, 50, 1, 2, 3, 60, 8, 1, 2, 3}).Guess(1),
              ElementsAre(60));
}

TEST(PromptLookupTest, ARepetitionMayOverlapItself) {
  EXPECT_THAT(After({5, 5, 5, 5}).Guess(3), ElementsAre(5));
  EXPECT_THAT(After({1, 2, 1, 2, 1}).Guess(3), ElementsAre(2, 1));
}

TEST(PromptLookupTest, GeneratedTokensCountLikeThePrompt) {
  PromptLookup lookup = After({1, 2, 3});
  for (const int32_t token : {4, 9, 1, 2, 3}) lookup.Add(token);

  EXPECT_THAT(lookup.Guess(2), ElementsAre(4, 9));
}

TEST(PromptLookupTest, WhatIsFarBackIsForgotten) {
  std::vector<int32_t> tokens = {1, 2, 3, 4};
  for (int32_t i = 0; i < 20000; ++i) tokens.push_back(100 + i);
  tokens.insert(tokens.end(), {1, 2, 3});

  EXPECT_THAT(After(tokens).Guess(1), IsEmpty());
}

TEST(PromptLookupTest, AcceptanceFollowsWhatCame) {
  PromptLookup lookup = After({1});
  const double unknown = lookup.acceptance();
  lookup.OnOutcome(4, 4);
  EXPECT_GT(lookup.acceptance(), unknown);

  for (int i = 0; i < 10; ++i) lookup.OnOutcome(4, 0);
  EXPECT_LT(lookup.acceptance(), 0.1);
  for (int i = 0; i < 1000; ++i) lookup.OnUntried();
  EXPECT_NEAR(lookup.acceptance(), unknown, 0.01) << "grown old";
}

TEST(PromptLookupTest, OneWrongGuessIsOneTrialHoweverManyFollowed) {
  PromptLookup few = After({1});
  PromptLookup many = After({1});
  few.OnOutcome(2, 1);
  many.OnOutcome(8, 1);

  EXPECT_EQ(few.acceptance(), many.acceptance());
}

}  // namespace
}  // namespace headrace
