// Quantities derived inside the engine against the same computed from the rows
// that it shows.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/numerics_param.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

class DerivedTest : public ::testing::TestWithParam<Numerics> {
 protected:
  void SetUp() override {
    const std::string path =
        WriteGgufModel(BuildTinyModel(), folder_.Join("tiny.gguf"),
                       {.dtype = DType::kQ8_0})
            .front();
    engine_ = MakeEngine(
        {.model_path = path, .numerics = GetParam(), .num_threads = 2});
    ASSERT_NE(engine_, nullptr);
  }
  TestSequence Sequence(std::vector<DerivedSpec> derived) {
    TestSequence test;
    test.prompt = {40, 8, 91, 17, 60};
    test.max_tokens = 3;
    test.capture = CaptureEverything(*engine_);
    test.capture.derived = std::move(derived);
    return test;
  }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

double LogSumExp(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  return most + std::log(sum);
}

TEST_P(DerivedTest, NormsProjectionsAndCosinesAreThoseOfTheRows) {
  const HookSelection where = {.hook = HookPoint::kResidPost, .layers = {0, 1}};
  std::vector<float> direction(32);
  for (size_t i = 0; i < 32; ++i) direction[i] = static_cast<float>(i) - 10;
  std::vector<float> first(32, 0.0f);
  first[0] = 1;
  TestSequence test =
      Sequence({{.kind = DerivedKind::kNorm, .where = where},
                {.kind = DerivedKind::kProjection,
                 .where = where,
                 .vectors = {direction, first}},
                {.kind = DerivedKind::kCosine, .where = where}});
  RunTogether(*engine_, {&test});

  for (int64_t p = 0; p < 7; ++p) {
    const std::vector<float>& r0 = test.rows.at(HookPoint::kResidPost, 0, p);
    const std::vector<float>& r1 = test.rows.at(HookPoint::kResidPost, 1, p);
    // Computed in float64 and rounded once.
    EXPECT_EQ(test.rows.derived.at({0, 1, p}).values,
              std::vector<float>{static_cast<float>(std::sqrt(Dot(r1, r1)))});
    EXPECT_EQ(
        test.rows.derived.at({1, 0, p}).values,
        (std::vector<float>{static_cast<float>(Dot(r0, direction)), r0[0]}));
    const double cosine =
        Dot(r0, r1) / (std::sqrt(Dot(r0, r0)) * std::sqrt(Dot(r1, r1)));
    EXPECT_EQ(test.rows.derived.at({2, 1, p}).values,
              std::vector<float>{static_cast<float>(cosine)});
    EXPECT_FALSE(test.rows.derived.contains({2, 0, p}));
  }
}

TEST_P(DerivedTest, TheLensOfTheLastLayerIsTheModelsOwnPrediction) {
  DerivedSpec lens{.kind = DerivedKind::kLogitLens,
                   .where = {.hook = HookPoint::kResidPost, .layers = {0, 1}}};
  lens.top_k = 4;
  lens.token_ids = {70, 3};
  TestSequence test = Sequence({lens});
  test.logprobs = {.top_n = 4, .enabled = true};
  RunTogether(*engine_, {&test});

  for (int64_t p = 0; p < 7; ++p) {
    const std::vector<float>& logits = test.rows.at(HookPoint::kLogits, -1, p);
    const double total = LogSumExp(logits);
    const RowKeeper::Derived& row = test.rows.derived.at({0, 1, p});
    ASSERT_EQ(row.ids.size(), 4u);
    ASSERT_EQ(row.values.size(), 8u);
    std::vector<float> sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (size_t k = 0; k < 4; ++k) {
      const float logit = logits[static_cast<size_t>(row.ids[k])];
      EXPECT_EQ(logit, sorted[k]);
      // A float32 logarithm of a probability.
      EXPECT_NEAR(row.values[k], logit - total, 2e-6);
    }
    EXPECT_NEAR(row.values[4], logits[70] - total, 2e-6);
    const auto rank =
        1 + std::count_if(logits.begin(), logits.end(),
                          [&](float x) { return x > logits[70]; });
    EXPECT_EQ(row.values[5], static_cast<float>(rank));
  }
  // Where a token was sampled: the same bits as its log probabilities.
  for (size_t i = 0; i < test.sampled.size(); ++i) {
    const RowKeeper::Derived& row =
        test.rows.derived.at({0, 1, test.sampled[i].position - 1});
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(row.ids[k], test.sampled[i].top[k].token);
      EXPECT_EQ(row.values[k], test.sampled[i].top[k].logprob);
    }
  }
}

TEST_P(DerivedTest, AttributionsSumUpToTheLogit) {
  const DerivedSpec by_writer{.kind = DerivedKind::kAttribution,
                              .where = {},
                              .vectors = {},
                              .top_k = 0,
                              .token_ids = {70, 3}};
  DerivedSpec by_head = by_writer;
  by_head.by_head = true;
  DerivedSpec contrast = by_writer;
  contrast.token_ids = {70};
  contrast.contrast_ids = {3};
  TestSequence test = Sequence({by_writer, by_head, contrast});
  RunTogether(*engine_, {&test});

  // What int8 activations round away in the unembedding and, for heads, in the
  // output projection.
  const double tolerance = GetParam() == Numerics::kExact ? 2e-6 : 2e-2;
  for (int64_t p = 0; p < 7; ++p) {
    const std::vector<float>& logits = test.rows.at(HookPoint::kLogits, -1, p);
    const std::vector<float>& w = test.rows.derived.at({0, -1, p}).values;
    const std::vector<float>& h = test.rows.derived.at({1, -1, p}).values;
    const std::vector<float>& c = test.rows.derived.at({2, -1, p}).values;
    ASSERT_EQ(w.size(), 2u * 7);  // embed, 2 x (attention, MLP), residue, logit
    ASSERT_EQ(h.size(), 2u * 13);  // 4 heads
    ASSERT_EQ(c.size(), 7u);
    double size = 0;
    for (size_t k = 0; k < 5; ++k) size += std::abs(w[k]);
    EXPECT_EQ(w[6], logits[70]);
    EXPECT_EQ(w[13], logits[3]);
    EXPECT_EQ(c[6], logits[70] - logits[3]);
    EXPECT_NEAR(std::accumulate(w.begin(), w.begin() + 6, 0.0), logits[70],
                1e-6 * size);
    EXPECT_NEAR(w[5], 0, tolerance * size);  // the residue
    EXPECT_NEAR(h[11], 0, tolerance * size);
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_NEAR(c[k], w[k] - w[7 + k], 1e-6 * size);
    }
    // The heads' parts are the layer's.
    EXPECT_EQ(h[0], w[0]);
    EXPECT_NEAR(h[1] + h[2] + h[3] + h[4], w[1], tolerance * size);
    EXPECT_EQ(h[5], w[2]);
    EXPECT_NEAR(h[6] + h[7] + h[8] + h[9], w[3], tolerance * size);
    EXPECT_EQ(h[10], w[4]);
  }
}

TEST_P(DerivedTest, AFinalScaleLensDividesByTheLastRowsScale) {
  DerivedSpec lens{.kind = DerivedKind::kLogitLens,
                   .where = {.hook = HookPoint::kResidPost, .layers = {0, 1}}};
  lens.top_k = 3;
  lens.token_ids = {70};
  DerivedSpec final_scale = lens;
  final_scale.lens_norm = LensNorm::kFinalScale;
  TestSequence test = Sequence({lens, final_scale});
  RunTogether(*engine_, {&test});

  ASSERT_EQ(test.rows.derived.size(), 2u * 2 * 7);
  for (int64_t p = 0; p < 7; ++p) {
    // At the last layer both are the same, bit for bit.
    EXPECT_EQ(test.rows.derived.at({1, 1, p}), test.rows.derived.at({0, 1, p}));
    EXPECT_NE(test.rows.derived.at({1, 0, p}), test.rows.derived.at({0, 0, p}));
  }
}

// Logits under one scale are linear in the row: with it, those of a row that
// is twice as large are twice as large, and the row's own norm is forgotten.
TEST_P(DerivedTest, AFinalScaleLensKeepsTheLengthOfARow) {
  DerivedSpec lens{.kind = DerivedKind::kLogitLens,
                   .where = {.hook = HookPoint::kAttnOut, .layers = {1}}};
  lens.token_ids = {70, 71};
  lens.lens_norm = LensNorm::kFinalScale;
  DerivedSpec attribution{.kind = DerivedKind::kAttribution};
  attribution.token_ids = {70};
  attribution.contrast_ids = {71};
  TestSequence test = Sequence({lens, attribution});
  RunTogether(*engine_, {&test});

  const double tolerance = GetParam() == Numerics::kExact ? 1e-4 : 0.05;
  for (int64_t p = 0; p < 7; ++p) {
    const auto& values = test.rows.derived.at({0, 1, p}).values;
    // Differences of log probabilities are differences of logits.
    const double part = test.rows.derived.at({1, -1, p}).values[3];
    EXPECT_NEAR(values[0] - values[2], part, tolerance * (1 + std::abs(part)));
  }
}

TEST_P(DerivedTest, MeansAreOfEachPhaseOnItsOwn) {
  const HookSelection where = {.hook = HookPoint::kMlpOut, .layers = {0, 1}};
  TestSequence test =
      Sequence({{.kind = DerivedKind::kMean, .where = where, .width = 32}});
  test.capture.rows.exclude_positions = {1};
  RunTogether(*engine_, {&test});

  ASSERT_EQ(test.rows.means.size(), 4u);
  for (const auto& [key, mean] : test.rows.means) {
    const auto [spec, layer, phase] = key;
    const std::vector<int64_t> positions =
        phase == Phase::kPrompt ? std::vector<int64_t>{0, 2, 3, 4}
                                : std::vector<int64_t>{5, 6};
    EXPECT_EQ(mean.rows, static_cast<int64_t>(positions.size()));
    EXPECT_EQ(mean.last_position, positions.back());
    for (size_t i = 0; i < 32; ++i) {
      double sum = 0;
      for (const int64_t p : positions) {
        sum += test.rows.at(HookPoint::kMlpOut, layer, p)[i];
      }
      EXPECT_EQ(mean.values[i],
                static_cast<float>(sum / static_cast<double>(mean.rows)));
    }
  }

  TestSequence again = Sequence(test.capture.derived);
  again.capture.rows = test.capture.rows;
  RunTogether(*engine_, {&again}, {.chunk = 2});
  EXPECT_EQ(again.rows.means, test.rows.means);
}

TEST_P(DerivedTest, NeitherBatchNorChunksNorDerivingChangesABit) {
  const HookSelection all = {.hook = HookPoint::kResidMid, .layers = {0, 1}};
  DerivedSpec lens{.kind = DerivedKind::kLogitLens, .where = all};
  lens.top_k = 3;
  DerivedSpec attribution{.kind = DerivedKind::kAttribution};
  attribution.token_ids = {70};
  TestSequence alone = Sequence(
      {lens, attribution, {.kind = DerivedKind::kCosine, .where = all}});
  RunTogether(*engine_, {&alone});
  TestSequence plain = Sequence({});
  RunTogether(*engine_, {&plain});
  EXPECT_EQ(alone.generated, plain.generated);
  EXPECT_EQ(alone.rows.rows, plain.rows.rows);

  for (const int64_t chunk : {1, 2, 512}) {
    TestSequence test = Sequence(alone.capture.derived);
    TestSequence other = Sequence({lens});
    other.prompt = {9, 9, 33, 120};
    RunTogether(*engine_, {&other, &test}, {.chunk = chunk});
    EXPECT_EQ(test.rows.derived, alone.rows.derived) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, DerivedTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
