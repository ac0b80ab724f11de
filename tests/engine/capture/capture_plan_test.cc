#include "engine/capture/capture_plan.h"

#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

std::vector<int64_t> Selected(const RowSelection& rows,
                              const std::vector<int32_t>& tokens,
                              int64_t prompt_length) {
  std::vector<int64_t> selected;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    if (rows.Selects(position, tokens[i], prompt_length)) {
      selected.push_back(position);
    }
  }
  return selected;
}

const std::vector<int32_t> kTokens = {1, 10, 11, 12, 10, 20, 21, 1};
constexpr int64_t kPrompt = 5;

using Positions = std::vector<int64_t>;

TEST(RowSelectionTest, AllOfEachPhase) {
  RowSelection rows;
  rows.prompt.all = true;
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{0, 1, 2, 3, 4}));
  rows.prompt.all = false;
  rows.generated.all = true;
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{5, 6, 7}));
}

TEST(RowSelectionTest, StrideCountsFromTheBeginOfThePhase) {
  RowSelection rows;
  rows.prompt = {.all = true, .stride = 2};
  rows.generated = {.all = true, .stride = 2};
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{0, 2, 4, 5, 7}));
}

TEST(RowSelectionTest, LastIsThePromptsLast) {
  RowSelection rows;
  rows.prompt.last = true;
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{4}));
}

TEST(RowSelectionTest, WindowsAreHalfOpenAndStride) {
  RowSelection rows;
  rows.prompt.windows = {{.begin = 1, .end = 5, .stride = 3}};
  rows.generated.windows = {{.begin = 0, .end = 7}};
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{1, 4, 5, 6}));
}

TEST(RowSelectionTest, PositionsBelongToTheirPhase) {
  RowSelection rows;
  rows.prompt.positions = {2, 6};
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{2}));
}

TEST(RowSelectionTest, TokenIdsMinusExcludes) {
  RowSelection rows;
  rows.prompt.token_ids = {1, 10};
  rows.generated.all = true;
  rows.exclude_token_ids = {1};
  rows.exclude_positions = {4};
  EXPECT_EQ(Selected(rows, kTokens, kPrompt), (Positions{1, 5, 6}));
}

TEST(RowSelectionTest, FirstPromptRowLimitsTheReusablePrefix) {
  RowSelection rows;
  const std::vector<int32_t> prompt(kTokens.begin(), kTokens.begin() + kPrompt);
  rows.generated.all = true;
  EXPECT_EQ(rows.FirstPromptRow(prompt), std::nullopt);
  rows.prompt.last = true;
  EXPECT_EQ(rows.FirstPromptRow(prompt), 4);
  rows.prompt.token_ids = {11};
  EXPECT_EQ(rows.FirstPromptRow(prompt), 2);
}

TEST(CapturePlanTest, WantsExactlyWhatIsListed) {
  CapturePlan plan;
  plan.hooks = {{.hook = HookPoint::kEmbed, .layers = {-1}},
                {.hook = HookPoint::kResidPost, .layers = {0, 3}}};

  EXPECT_TRUE(plan.Wants(HookPoint::kEmbed, -1));
  EXPECT_TRUE(plan.Wants(HookPoint::kResidPost, 3));
  EXPECT_FALSE(plan.Wants(HookPoint::kResidPost, 1));
  EXPECT_FALSE(plan.Wants(HookPoint::kResidMid, 0));
}

}  // namespace
}  // namespace headrace
