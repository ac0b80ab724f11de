// The bound on the decode stall: what the scheduler may know of a step's cost,
// and worlds in which long prompts arrive beside a sequence that decodes.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "server/batching/scheduler.h"
#include "server/batching/step_costs.h"

namespace headrace {
namespace {

TEST(StepCostsTest, NothingIsKnownBeforeASteps) {
  const StepCosts costs;

  EXPECT_EQ(costs.per_row(), absl::ZeroDuration());
  EXPECT_EQ(costs.OfStep(1), absl::ZeroDuration());
}

TEST(StepCostsTest, ADearerStepCountsAtOnceACheaperOneByAndBy) {
  StepCosts costs;
  costs.Measure(100, absl::Milliseconds(100));
  EXPECT_EQ(costs.per_row(), absl::Milliseconds(1));

  costs.Measure(100, absl::Milliseconds(150));
  EXPECT_EQ(costs.per_row(), absl::Milliseconds(1.5));
  costs.Measure(100, absl::Milliseconds(50));
  EXPECT_EQ(costs.per_row(), absl::Milliseconds(1.3));
  costs.Measure(100, absl::Seconds(10));
  EXPECT_EQ(costs.per_row(), absl::Milliseconds(2.6)) << "one hiccup";
}

TEST(StepCostsTest, AFewRowsAreTakenFromTheirMeasuredNeighbours) {
  StepCosts costs;
  costs.Measure(2, absl::Milliseconds(6));
  EXPECT_EQ(costs.OfStep(2), absl::Milliseconds(6));
  EXPECT_EQ(costs.OfStep(1), absl::ZeroDuration()) << "fewer are not known";
  EXPECT_EQ(costs.OfStep(5), absl::Milliseconds(6));

  costs.Measure(100, absl::Milliseconds(50));
  EXPECT_EQ(costs.OfStep(5), absl::Milliseconds(7.5));
  costs.Measure(8, absl::Milliseconds(12));
  EXPECT_EQ(costs.OfStep(5), absl::Milliseconds(9));
  EXPECT_EQ(costs.OfStep(48), absl::Milliseconds(32));
}

// One sequence decodes; prompts come one after the other. A step costs
// `decode` and, for each prompt row, what `row_cost` says of its position.
class StallWorld {
 public:
  using RowCost = std::function<absl::Duration(int64_t position)>;
  StallWorld(SchedulerLimits limits, RowCost row_cost)
      : limits_(limits), row_cost_(std::move(row_cost)) {}

  // What prompt rows cost each step until a prompt is computed whose rows
  // before `cached` come from the cache.
  std::vector<absl::Duration> RunPrompt(int64_t length, int64_t cached = 0) {
    std::vector<absl::Duration> stalls;
    for (int64_t done = cached; done < length;) {
      const StepState state{
          .running = {{.id = SequenceId{1}, .order = 1},
                      {.id = SequenceId{2},
                       .order = 2,
                       .reader = 1,
                       .prompt_rows = length - done}},
          .readers = {{.token_room = 64, .token_capacity = 64},
                      {.token_room = 64, .token_capacity = 64}},
          .costs = costs_};
      absl::Duration stall;
      int64_t rows = 0;
      bool decoded = false;
      for (const StepDecision::Slice& slice :
           DecideStep(state, limits_).slices) {
        rows += slice.num_rows;
        decoded |= slice.id == SequenceId{1};
        if (slice.id != SequenceId{2}) continue;
        for (int64_t i = 0; i < slice.num_rows; ++i) stall += row_cost_(done++);
      }
      EXPECT_TRUE(decoded);
      costs_.Measure(rows, kDecode + stall);
      stalls.push_back(stall);
    }
    return stalls;
  }

  static constexpr absl::Duration kDecode = absl::Milliseconds(5);

 private:
  const SchedulerLimits limits_;
  const RowCost row_cost_;
  StepCosts costs_;
};

absl::Duration Longest(const std::vector<absl::Duration>& stalls) {
  return *std::max_element(stalls.begin(), stalls.end());
}

constexpr SchedulerLimits kLimits{.max_decode_stall = absl::Milliseconds(100)};

TEST(DecodeStallTest, EveryStepKeepsTheBoundFromTheFirstOn) {
  for (const double milliseconds : {0.1, 0.7, 6.0}) {
    SCOPED_TRACE(milliseconds);
    StallWorld world(kLimits,
                     [=](int64_t) { return absl::Milliseconds(milliseconds); });
    for (int i = 0; i < 3; ++i) {
      const std::vector<absl::Duration> stalls = world.RunPrompt(5000);
      EXPECT_LE(Longest(stalls), kLimits.max_decode_stall);
      EXPECT_LE(stalls.size(),
                5 + 5000 * milliseconds / 50 + 5000 / kLimits.max_batch_rows)
          << "at least half of what is allowed is used";
    }
  }
}

TEST(DecodeStallTest, RowsThatAreTooDearGoInTheSmallestChunks) {
  StallWorld world(kLimits, [](int64_t) { return absl::Milliseconds(50); });

  EXPECT_EQ(Longest(world.RunPrompt(1000)), 16 * absl::Milliseconds(50));
}

TEST(DecodeStallTest, RowsThatGetDearerWithDepthKeepTheBound) {
  // Ten times as dear at 32768.
  StallWorld world(kLimits, [](int64_t position) {
    return absl::Milliseconds(0.5 +
                              4.5 * static_cast<double>(position) / 32768);
  });
  const std::vector<absl::Duration> stalls = world.RunPrompt(32768);

  EXPECT_LE(Longest(stalls), 1.05 * kLimits.max_decode_stall)
      << "a chunk is deeper than the one that was measured";
}

TEST(DecodeStallTest, AJumpInDepthIsKnownTwoStepsLater) {
  const auto dearer_by = [](double factor) {
    return [=](int64_t position) {
      return absl::Milliseconds(position < 10000 ? 0.5 : 0.5 * factor);
    };
  };
  for (const double factor : {2.0, 4.0}) {
    SCOPED_TRACE(factor);
    StallWorld world(kLimits, dearer_by(factor));
    EXPECT_LE(Longest(world.RunPrompt(5000)), kLimits.max_decode_stall);

    std::vector<absl::Duration> stalls = world.RunPrompt(14000, 10000);

    EXPECT_LE(stalls[0], factor * kLimits.max_decode_stall);
    stalls.erase(stalls.begin(), stalls.begin() + (factor > 2 ? 2 : 1));
    EXPECT_LE(Longest(stalls), kLimits.max_decode_stall);
  }
}

TEST(DecodeStallTest, OneHiccupDoesNotSlowPromptsForLong) {
  int64_t hiccup = 1000;
  StallWorld world(kLimits, [&](int64_t position) {
    return position == hiccup ? absl::Seconds(5) : absl::Milliseconds(0.5);
  });
  const size_t with = world.RunPrompt(20000).size();
  hiccup = -1;
  StallWorld calm(kLimits, [](int64_t) { return absl::Milliseconds(0.5); });

  EXPECT_LE(with, calm.RunPrompt(20000).size() + 4);
}

}  // namespace
}  // namespace headrace
