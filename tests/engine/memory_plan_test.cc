#include "engine/memory_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

MemoryNeeds Needs() {
  return {.limit_bytes = 1000 * kMiB,
          .weight_bytes = 300 * kMiB,
          .working_bytes = 200 * kMiB,
          .kv_block_bytes = kMiB,
          .kv_block_size = 16,
          .context_length = 160,  // 10 blocks
          .requested_kv_cache_bytes = 0};
}

TEST(MemoryPlanTest, UndecidedTakesSixteenContexts) {
  EXPECT_EQ(*PlanKvBlocks(Needs()), 160);
}

TEST(MemoryPlanTest, UndecidedLeavesAShareOfWhatIsFree) {
  MemoryNeeds needs = Needs();
  needs.limit_bytes = 600 * kMiB;  // 100 MiB free

  EXPECT_EQ(*PlanKvBlocks(needs), 80);
}

TEST(MemoryPlanTest, WhatIsAskedForIsTaken) {
  MemoryNeeds needs = Needs();
  needs.requested_kv_cache_bytes = 33 * kMiB;

  EXPECT_EQ(*PlanKvBlocks(needs), 33);
}

TEST(MemoryPlanTest, MoreThanIsFreeIsRefusedWithTheNumbers) {
  MemoryNeeds needs = Needs();
  needs.requested_kv_cache_bytes = 501 * kMiB;

  const auto blocks = PlanKvBlocks(needs);

  EXPECT_EQ(blocks.status().code(), absl::StatusCode::kResourceExhausted);
  for (const char* number : {"501 MiB", "1000 MiB", "300 MiB", "500 MiB"}) {
    EXPECT_THAT(std::string(blocks.status().message()),
                ::testing::HasSubstr(number));
  }
}

TEST(MemoryPlanTest, AModelThatCannotHoldOneContextIsRefused) {
  MemoryNeeds needs = Needs();
  needs.limit_bytes = 505 * kMiB;  // 5 MiB free, one context takes 10

  const auto blocks = PlanKvBlocks(needs);

  EXPECT_EQ(blocks.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(blocks.status().message()),
              ::testing::HasSubstr("10 MiB"));
  EXPECT_THAT(std::string(blocks.status().message()),
              ::testing::HasSubstr("context_length"));
}

}  // namespace
}  // namespace headrace
