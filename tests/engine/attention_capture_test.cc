// What attention makes of its keys, head by head: that it is what the layer
// computed, and that looking at it changes nothing.
#include <algorithm>
#include <cmath>
#include <limits>
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class AttentionCaptureTest : public ::testing::TestWithParam<Numerics> {
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
  TestSequence Sequence(int64_t prompt_length = 70) const {
    TestSequence test;
    for (int64_t i = 0; i < prompt_length; ++i) {
      test.prompt.push_back(static_cast<int32_t>(3 + i * 37 % 250));
    }
    test.max_tokens = 4;
    test.capture = CaptureEverything(*engine_);
    return test;
  }
  // A step between neighbouring values of a stored key or value, of its
  // largest: fast numerics keep them as 16-bit integers.
  double KvStep() const {
    return GetParam() == Numerics::kExact ? 0 : 1.0 / 2896;
  }
  const ModelConfig& config() const { return engine_->model().config; }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

// The part of `row` that belongs to a head.
std::vector<float> Head(const std::vector<float>& row, int64_t head,
                        int64_t head_dim) {
  return {row.begin() + head * head_dim, row.begin() + (head + 1) * head_dim};
}

double Largest(const std::vector<float>& row) {
  double largest = 0;
  for (const float x : row) largest = std::max<double>(largest, std::abs(x));
  return largest;
}

double Sum(const std::vector<float>& row) {
  double sum = 0;
  for (const float x : row) sum += std::abs(x);
  return sum;
}

TEST_P(AttentionCaptureTest, EveryRowHasAValueForEachKeyAndThenPadding) {
  TestSequence test = Sequence();
  RunTogether(*engine_, {&test});

  // Two layers, four heads, two hooks; the token sampled last has no row.
  EXPECT_EQ(test.rows.attention.size(), 2u * 4 * 2 * 73);
  for (const auto& [key, row] : test.rows.attention) {
    const auto [hook, layer, head, position] = key;
    EXPECT_EQ(row.key_start, 0);
    ASSERT_EQ(row.key_count, position + 1);
    ASSERT_EQ(static_cast<int64_t>(row.values.size()),
              KeyRowWidth(position + 1, 0));
    const float padding = hook == HookPoint::kAttnProbs ? 0 : -kInfinity;
    for (size_t i = static_cast<size_t>(row.key_count); i < row.values.size();
         ++i) {
      ASSERT_EQ(row.values[i], padding);
    }
  }
}

TEST_P(AttentionCaptureTest, ScoresAreScaledProductsOfRotatedQueriesAndKeys) {
  TestSequence test = Sequence();
  RunTogether(*engine_, {&test});

  const int64_t dim = config().head_dim;
  const int64_t group =
      config().num_attention_heads / config().num_key_value_heads;
  for (const auto& [key, row] : test.rows.attention) {
    const auto [hook, layer, head, position] = key;
    if (hook != HookPoint::kAttnScores) continue;
    const std::vector<float> q =
        Head(test.rows.at(HookPoint::kQRotated, layer, position), head, dim);
    for (int64_t j = 0; j <= position; ++j) {
      const std::vector<float> k =
          Head(test.rows.at(HookPoint::kKRotated, layer, j), head / group, dim);
      double score = 0;
      double size = 0;
      for (size_t d = 0; d < q.size(); ++d) {
        const double part = static_cast<double>(q[d]) * k[d] / std::sqrt(dim);
        score += part;
        size += std::abs(part);
      }
      const double integers =
          (Largest(k) * Sum(q) + Largest(q) * Sum(k)) / std::sqrt(dim);
      // Eight roundings of 2^-24 of partial sums.
      ASSERT_NEAR(row.values[static_cast<size_t>(j)], score,
                  1e-6 * size + KvStep() * integers)
          << layer << " " << head << " " << position << " " << j;
    }
  }
}

TEST_P(AttentionCaptureTest, ProbabilitiesSumToOneAndWeighTheValuesToZ) {
  TestSequence test = Sequence();
  RunTogether(*engine_, {&test});

  const int64_t dim = config().head_dim;
  const int64_t group =
      config().num_attention_heads / config().num_key_value_heads;
  for (const auto& [key, row] : test.rows.attention) {
    const auto [hook, layer, head, position] = key;
    if (hook != HookPoint::kAttnProbs) continue;
    double sum = 0;
    for (const float p : row.values) sum += p;
    ASSERT_NEAR(sum, 1, 1e-6);  // each of up to 74 rounded by 2^-25 of itself
    const std::vector<float> z =
        Head(test.rows.at(HookPoint::kZ, layer, position), head, dim);
    for (size_t d = 0; d < z.size(); ++d) {
      double expected = 0;
      double size = 0;
      double largest = 0;
      for (int64_t j = 0; j <= position; ++j) {
        const std::vector<float> v =
            Head(test.rows.at(HookPoint::kV, layer, j), head / group, dim);
        const double part =
            static_cast<double>(row.values[static_cast<size_t>(j)]) * v[d];
        expected += part;
        size += std::abs(part);
        largest = std::max(largest, Largest(v));
      }
      // Attention's exponentials are within 1 ulp, and it sums up to 74
      // products in float32.
      ASSERT_NEAR(z[d], expected, 2e-6 * size + 2 * KvStep() * largest);
    }
  }
}

TEST_P(AttentionCaptureTest, TopKeysAreTheLargestWithTheirPositions) {
  TestSequence full = Sequence();
  RunTogether(*engine_, {&full});
  TestSequence test = Sequence();
  test.capture.hooks = {{.hook = HookPoint::kAttnProbs,
                         .layers = {1},
                         .heads = {{1, 2}},
                         .top_keys = 3}};
  RunTogether(*engine_, {&test});

  EXPECT_EQ(test.rows.attention.size(), 73u);
  for (const auto& [key, row] : test.rows.attention) {
    const int64_t position = std::get<3>(key);
    std::vector<float> all = full.rows.attention.at(key).values;
    ASSERT_EQ(row.values.size(), 3u);
    ASSERT_EQ(row.key_positions.size(), 3u);
    ASSERT_EQ(row.key_count, std::min<int64_t>(3, position + 1));
    for (int64_t i = 0; i < row.key_count; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto from = static_cast<size_t>(row.key_positions[at]);
      EXPECT_EQ(row.values[at], full.rows.attention.at(key).values[from]);
      EXPECT_EQ(row.values[at], *std::max_element(all.begin(), all.end()));
      all[from] = -1;
    }
  }
}

TEST_P(AttentionCaptureTest, LookingChangesNoBitWhateverTheChunks) {
  TestSequence watched = Sequence();
  RunTogether(*engine_, {&watched});
  TestSequence plain = Sequence();
  std::erase_if(plain.capture.hooks,
                [](const HookSelection& hook) { return !hook.heads.empty(); });
  RunTogether(*engine_, {&plain});
  EXPECT_EQ(watched.generated, plain.generated);
  EXPECT_EQ(watched.rows.rows, plain.rows.rows);
  EXPECT_TRUE(plain.rows.attention.empty());

  for (const int64_t chunk : {1, 7, 64}) {
    TestSequence test = Sequence();
    TestSequence other = Sequence(9);
    RunTogether(*engine_, {&other, &test}, {.chunk = chunk});
    EXPECT_EQ(test.rows.attention, watched.rows.attention) << chunk;
  }
}

// What is read from the cache is the sequence's own keys as they were stored:
// changed ones too.
TEST_P(AttentionCaptureTest, ScoresOfChangedKeysAreThoseOfWhatTheyBecame) {
  TestSequence test = Sequence(10);
  Intervention zero{.op = InterventionOp::kZero,
                    .where = {.hook = HookPoint::kKRotated, .layers = {1}}};
  zero.rows.prompt.positions = {4};
  test.interventions = {zero};
  RunTogether(*engine_, {&test});

  const auto& row =
      test.rows.attention.at({HookPoint::kAttnScores, 1, 0, 9}).values;
  EXPECT_EQ(row[4], 0);
  EXPECT_NE(row[3], 0);
}

INSTANTIATE_TEST_SUITE_P(Numerics, AttentionCaptureTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
