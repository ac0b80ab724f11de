// The engine on SmolLM2-135M-Instruct Q4_1 in exact mode, against transformers
// on the same dequantised weights (tests/golden/smollm2).
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_harness.h"
#include "tests/engine/golden_arrays.h"

namespace headrace {
namespace {

constexpr int64_t kLayers = 30;
constexpr int64_t kHidden = 576;

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (DefaultModelPath().empty()) {
      GTEST_SKIP() << "the default model is not here: deploy/fetch-model";
    }
    engine_ = MakeEngine(
        {.model_path = DefaultModelPath(), .numerics = Numerics::kExact});
    ASSERT_NE(engine_, nullptr);
  }
  TestSequence Prompt(const nlohmann::json& golden) const {
    TestSequence test;
    test.prompt = golden["ids"].get<std::vector<int32_t>>();
    return test;
  }
  std::unique_ptr<Engine> engine_;
  const GoldenArrays goldens_{"smollm2/smollm2_goldens"};
};

TEST_F(SmolLm2Test, EveryResidualRowMatchesTransformers) {
  const auto projections = goldens_.json["projections"].get<int64_t>();
  const std::vector<double> signs = Signs(projections * kHidden, 1);
  for (const nlohmann::json& golden : goldens_.json["cases"]) {
    TestSequence test = Prompt(golden);
    test.capture = CaptureEverything(*engine_);
    RunTogether(*engine_, {&test});
    const auto rows = static_cast<int64_t>(test.prompt.size());
    const std::span<const float> norms = goldens_.Array(golden["norm"]);
    const std::span<const float> dots = goldens_.Array(golden["projections"]);
    double worst = 0;
    for (int64_t l = 0; l < kLayers; ++l) {
      for (int64_t p = 0; p < rows; ++p) {
        const std::vector<float>& row =
            test.rows.at(HookPoint::kResidPost, static_cast<int32_t>(l), p);
        const double norm = norms[l * rows + p];
        worst = std::max(worst, std::abs(Norm(row) - norm) / norm);
        for (int64_t k = 0; k < projections; ++k) {
          double dot = 0;
          for (int64_t i = 0; i < kHidden; ++i) {
            dot += row[i] * signs[k * kHidden + i];
          }
          // A product with a random +-1 vector has the size of the row's
          // error; twice that is its 95th percentile.
          worst = std::max(
              worst, std::abs(dot - dots[(l * rows + p) * projections + k]) /
                         norm / 2);
        }
      }
    }
    // Relative to the row: transformers' own float32 and float64 differ by
    // 5e-6.
    EXPECT_LT(worst, 2e-5) << rows << " rows";
    EXPECT_EQ(test.checks.resid_mid_failed + test.checks.resid_post_failed, 0);
    EXPECT_EQ(test.checks.resid_mid_checked, rows * kLayers);
  }
}

TEST_F(SmolLm2Test, WholeRowsAndLogitsMatchTransformers) {
  const auto stride = goldens_.json["logit_stride"].get<int64_t>();
  for (const nlohmann::json& golden : goldens_.json["cases"]) {
    TestSequence test = Prompt(golden);
    test.capture = CaptureEverything(*engine_);
    test.capture.rows.prompt = {.last = true};
    RunTogether(*engine_, {&test});
    const auto last = static_cast<int64_t>(test.prompt.size()) - 1;
    for (const auto& [layer, where] : golden["rows"].items()) {
      const std::span<const float> expected = goldens_.Array(where);
      const std::vector<float>& row =
          test.rows.at(HookPoint::kResidPost, std::stoi(layer), last);
      std::vector<float> difference(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        difference[i] = row[i] - expected[i];
      }
      EXPECT_LT(Norm(difference), 2e-5 * Norm(expected)) << "layer " << layer;
    }
    const std::vector<float>& logits =
        test.rows.at(HookPoint::kLogits, -1, last);
    const std::span<const float> expected = goldens_.Array(golden["logits"]);
    for (size_t i = 0; i < expected.size(); ++i) {
      // transformers' own float32 and float64 differ by 9e-5.
      EXPECT_NEAR(logits[i * static_cast<size_t>(stride)], expected[i], 5e-4);
    }
    const std::span<const float> top = goldens_.Array(golden["top_logits"]);
    for (size_t i = 0; i < top.size(); ++i) {
      EXPECT_NEAR(logits[golden["top_ids"][i].get<size_t>()], top[i], 5e-4);
    }
  }
}

TEST_F(SmolLm2Test, GreedyTokensMatchTransformers) {
  for (const nlohmann::json& golden : goldens_.json["cases"]) {
    TestSequence test = Prompt(golden);
    const auto expected = golden["greedy"].get<std::vector<int32_t>>();
    test.max_tokens = static_cast<int64_t>(expected.size());
    RunTogether(*engine_, {&test});
    for (size_t i = 0; i < expected.size(); ++i) {
      // Two nearly equal logits may change places; what follows then differs.
      if (golden["greedy_gap"][i].get<double>() < 1e-3) break;
      ASSERT_EQ(test.generated[i], expected[i])
          << "token " << i << " of a prompt of " << test.prompt.size();
    }
  }
}

}  // namespace
}  // namespace headrace
