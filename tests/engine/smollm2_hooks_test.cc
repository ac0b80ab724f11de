// Every hook inside the sublayers of SmolLM2-135M-Instruct Q4_1, in exact mode,
// against transformers on the same dequantised weights
// (tests/golden/smollm2/make_hook_goldens.py).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/hook_point.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/golden_arrays.h"

namespace headrace {
namespace {

constexpr int64_t kProjections = 2;

class SmolLm2HooksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (DefaultModelPath().empty()) {
      GTEST_SKIP() << "the default model is not here: deploy/fetch-model";
    }
    engine_ = MakeEngine(
        {.model_path = DefaultModelPath(), .numerics = Numerics::kExact});
    ASSERT_NE(engine_, nullptr);
  }
  std::unique_ptr<Engine> engine_;
  const GoldenArrays goldens_{"smollm2/hook_goldens"};
};

// TransformerLensOrg/TransformerLens#496: the error of each hook has a bound.
TEST_F(SmolLm2HooksTest, RowsInsideTheSublayersMatchTransformers) {
  TestSequence test;
  test.prompt = goldens_.json["ids"].get<std::vector<int32_t>>();
  test.capture = CaptureEverything(*engine_);
  RunTogether(*engine_, {&test});
  const auto last = static_cast<int64_t>(test.prompt.size()) - 1;
  const auto whole_layer = goldens_.json["whole_layer"].get<int32_t>();

  for (const auto& [name, golden] : goldens_.json["hooks"].items()) {
    const std::optional<HookPoint> hook = HookPointFromName(name);
    ASSERT_TRUE(hook.has_value()) << name;
    const auto layers = golden["layers"].get<int32_t>();
    const std::span<const float> expected = goldens_.Array(golden["row"]);
    const std::vector<double> signs =
        Signs(kProjections * static_cast<int64_t>(expected.size()), 1);
    const std::span<const float> norms = goldens_.Array(golden["norms"]);
    const std::span<const float> dots = goldens_.Array(golden["projections"]);
    for (int32_t layer = 0; layer < layers; ++layer) {
      const std::vector<float>& row =
          test.rows.at(*hook, layers == 1 ? -1 : layer, last);
      ASSERT_EQ(row.size(), expected.size()) << name;
      const double norm = norms[layer];
      // Relative to the row, as for the residual stream.
      EXPECT_NEAR(Norm(row), norm, 2e-5 * norm) << name << " " << layer;
      for (int64_t p = 0; p < kProjections; ++p) {
        double dot = 0;
        for (size_t i = 0; i < row.size(); ++i) {
          dot += row[i] * signs[p * row.size() + i];
        }
        // A product with a random +-1 vector has the size of the row's error;
        // twice that is its 95th percentile.
        EXPECT_NEAR(dot, dots[layer * kProjections + p], 4e-5 * norm)
            << name << " " << layer;
      }
    }
    const std::vector<float>& whole =
        test.rows.at(*hook, layers == 1 ? -1 : whole_layer, last);
    std::vector<float> difference(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      difference[i] = whole[i] - expected[i];
    }
    EXPECT_LT(Norm(difference), 2e-5 * Norm(expected)) << name;
  }
}

// tests/golden/smollm2/make_attention_goldens.py.
TEST_F(SmolLm2HooksTest, AttentionMatchesTransformers) {
  const GoldenArrays goldens("smollm2/attention_goldens");
  for (const auto& golden : goldens.json["cases"]) {
    TestSequence test;
    test.prompt = golden["ids"].get<std::vector<int32_t>>();
    const auto layers = golden["layers"].get<std::vector<int32_t>>();
    const auto keys = static_cast<int64_t>(test.prompt.size());
    const int64_t heads = engine_->model().config.num_attention_heads;
    for (const HookPoint hook :
         {HookPoint::kAttnScores, HookPoint::kAttnProbs}) {
      HookSelection& selection =
          test.capture.hooks.emplace_back(HookSelection{.hook = hook});
      selection.layers = layers;
      for (const int32_t layer : layers) {
        for (int32_t head = 0; head < heads; ++head) {
          selection.heads.push_back({layer, head});
        }
      }
    }
    test.capture.rows.prompt.last = true;
    RunTogether(*engine_, {&test});

    for (const HookPoint hook :
         {HookPoint::kAttnScores, HookPoint::kAttnProbs}) {
      const std::string name(GetHookPointInfo(hook).name);
      const std::span<const float> expected = goldens.Array(golden[name]);
      // Rows of q and k are within 2e-5 of their norms, and their product is
      // up to 100; a score that is off by so much moves a probability by as
      // much of itself.
      const double tolerance = hook == HookPoint::kAttnScores ? 2e-3 : 5e-4;
      double worst = 0;
      size_t next = 0;
      for (const int32_t layer : layers) {
        for (int32_t head = 0; head < heads; ++head) {
          const auto& row =
              test.rows.attention.at({hook, layer, head, keys - 1});
          ASSERT_EQ(row.key_count, keys);
          for (int64_t key = 0; key < keys; ++key) {
            worst = std::max<double>(
                worst, std::abs(row.values[static_cast<size_t>(key)] -
                                expected[next++]));
          }
        }
      }
      EXPECT_EQ(next, expected.size());
      EXPECT_LT(worst, tolerance) << name << " of " << keys << " keys";
    }
  }
}

}  // namespace
}  // namespace headrace
