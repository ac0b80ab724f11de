#include "engine/capture/step_recorder.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

struct Keeper final : CaptureSink {
  void OnRow(const CapturedRow& row) override {
    positions.push_back(row.position);
    phases.push_back(row.phase);
    first_values.push_back(row.values[0]);
  }
  std::vector<int64_t> positions;
  std::vector<Phase> phases;
  std::vector<float> first_values;
};

HookRows Rows(HookPoint hook, int32_t layer, const std::vector<float>& data,
              int64_t width) {
  return {.hook = hook,
          .layer = layer,
          .data = data.data(),
          .width = width,
          .stride = width,
          .step_rows = {},
          .num_rows = static_cast<int64_t>(data.size()) / width};
}

CapturePlan EveryRow(HookPoint hook, int32_t layer) {
  CapturePlan plan;
  plan.hooks = {{.hook = hook, .layers = {layer}}};
  plan.rows.prompt.all = true;
  plan.rows.generated.all = true;
  return plan;
}

TEST(StepRecorderTest, EachSequenceGetsItsOwnRows) {
  const CapturePlan plan = EveryRow(HookPoint::kResidPost, 1);
  Keeper a;
  Keeper b;
  CaptureChecks checks;
  const std::vector<int32_t> a_tokens = {5, 6};
  const std::vector<int32_t> b_tokens = {7};
  StepRecorder recorder(/*last_layer=*/1);
  recorder.AddSlice({.plan = &plan,
                     .sink = &a,
                     .checks = &checks,
                     .first_row = 0,
                     .first_position = 10,
                     .prompt_length = 11,
                     .tokens = a_tokens});
  recorder.AddSlice({.plan = &plan,
                     .sink = &b,
                     .checks = &checks,
                     .first_row = 2,
                     .first_position = 3,
                     .prompt_length = 4,
                     .tokens = b_tokens});

  recorder.OnRows(Rows(HookPoint::kResidPost, 1, {1, 0, 2, 0, 3, 0}, 2));
  recorder.OnRows(Rows(HookPoint::kResidPost, 0, {9, 9, 9, 9, 9, 9}, 2));

  EXPECT_EQ(a.positions, (std::vector<int64_t>{10, 11}));
  EXPECT_EQ(a.phases, (std::vector<Phase>{Phase::kPrompt, Phase::kGenerated}));
  EXPECT_EQ(a.first_values, (std::vector<float>{1, 2}));
  EXPECT_EQ(b.positions, (std::vector<int64_t>{3}));
  EXPECT_EQ(b.first_values, (std::vector<float>{3}));
}

TEST(StepRecorderTest, GatheredRowsFindTheirStepRow) {
  const CapturePlan plan = EveryRow(HookPoint::kLogits, -1);
  Keeper keeper;
  CaptureChecks checks;
  const std::vector<int32_t> tokens = {1, 2, 3};
  StepRecorder recorder(0);
  recorder.AddSlice({.plan = &plan,
                     .sink = &keeper,
                     .checks = &checks,
                     .first_row = 4,
                     .first_position = 0,
                     .prompt_length = 3,
                     .tokens = tokens});
  EXPECT_EQ(recorder.RowsWanting({HookPoint::kLogits}),
            (std::vector<int32_t>{4, 5, 6}));

  const std::vector<float> data = {50, 60};
  const std::vector<int32_t> step_rows = {2, 5};
  HookRows rows = Rows(HookPoint::kLogits, -1, data, 1);
  rows.step_rows = step_rows;
  recorder.OnRows(rows);

  EXPECT_EQ(keeper.positions, (std::vector<int64_t>{1}));
  EXPECT_EQ(keeper.first_values, (std::vector<float>{60}));
}

// One row of two values through one layer: what attention writes, the bus after
// it, and the bus after the MLP.
CaptureChecks Check(const std::vector<float>& attn_out,
                    const std::vector<float>& mid,
                    const std::vector<float>& post) {
  CapturePlan plan;
  plan.checks = true;
  plan.rows.prompt.all = true;
  CaptureChecks checks;
  const std::vector<int32_t> tokens = {1};
  StepRecorder recorder(0);
  recorder.AddSlice({.plan = &plan,
                     .sink = nullptr,
                     .checks = &checks,
                     .first_row = 0,
                     .first_position = 0,
                     .prompt_length = 1,
                     .tokens = tokens});
  recorder.OnRows(Rows(HookPoint::kEmbed, -1, {1, 2}, 2));
  recorder.OnRows(Rows(HookPoint::kResidPre, 0, {1, 2}, 2));
  recorder.OnRows(Rows(HookPoint::kAttnOut, 0, attn_out, 2));
  recorder.OnRows(Rows(HookPoint::kResidMid, 0, mid, 2));
  recorder.OnRows(Rows(HookPoint::kMlpOut, 0, {1, 1}, 2));
  recorder.OnRows(Rows(HookPoint::kResidPost, 0, post, 2));
  return checks;
}

TEST(StepRecorderTest, ExactSumsPassTheChecks) {
  const CaptureChecks checks =
      Check({0.5f, 0.25f}, {1.5f, 2.25f}, {2.5f, 3.25f});

  EXPECT_EQ(checks.rows_checked, 1);
  EXPECT_EQ(checks.resid_mid_checked, 1);
  EXPECT_EQ(checks.resid_mid_failed, 0);
  EXPECT_EQ(checks.resid_post_checked, 1);
  EXPECT_EQ(checks.resid_post_failed, 0);
  EXPECT_EQ(checks.max_sum_relative_error, 0);
}

TEST(StepRecorderTest, OneBitOffFailsTheCheck) {
  const CaptureChecks checks = Check(
      {0.5f, 0.25f}, {1.5f, 2.25f + 4 * std::numeric_limits<float>::epsilon()},
      {2.5f, 3.25f});

  EXPECT_EQ(checks.resid_mid_failed, 1);
  EXPECT_EQ(checks.resid_post_failed, 1);
}

// What is no number is no sum: a client that adds again finds it unequal.
TEST(StepRecorderTest, NanFailsTheChecks) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const CaptureChecks checks = Check({nan, nan}, {1.5f, nan}, {2.5f, nan});

  EXPECT_EQ(checks.resid_mid_failed, 1);
  EXPECT_EQ(checks.resid_post_failed, 1);
  EXPECT_EQ(checks.max_sum_relative_error,
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace headrace
