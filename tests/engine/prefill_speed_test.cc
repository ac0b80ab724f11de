// A prompt goes through kernels, not through loops: 512 tokens of SmolLM2-135M
// take less than a tenth of the processor time of the plain loops over the same
// matrices.
#include <cstdint>
#include <ctime>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/numerics_param.h"

namespace headrace {
namespace {

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// dst = src . weights^T for one row, as a textbook has it.
void NaiveProduct(const std::vector<float>& src,
                  const std::vector<float>& weights, std::vector<float>& dst) {
  for (size_t n = 0; n < dst.size(); ++n) {
    float sum = 0;
    for (size_t k = 0; k < src.size(); ++k) {
      sum += src[k] * weights[n * src.size() + k];
    }
    dst[n] = sum;
  }
}

// Processor seconds of the products of `rows` rows in every layer.
double NaiveSeconds(const ModelConfig& config, int64_t rows) {
  const int64_t hidden = config.hidden_size;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t inner = config.intermediate_size;
  struct Matrix {
    int64_t in;
    int64_t out;
  };
  const std::vector<Matrix> layer = {
      {hidden, q},     {hidden, kv},    {hidden, kv},   {q, hidden},
      {hidden, inner}, {hidden, inner}, {inner, hidden}};
  double seconds = 0;
  for (const Matrix& matrix : layer) {
    const std::vector<float> src(static_cast<size_t>(matrix.in), 0.5f);
    const std::vector<float> weights(
        static_cast<size_t>(matrix.in * matrix.out), 0.25f);
    std::vector<float> dst(static_cast<size_t>(matrix.out));
    const double start = ProcessorSeconds();
    for (int64_t row = 0; row < rows * config.num_hidden_layers; ++row) {
      NaiveProduct(src, weights, dst);
    }
    seconds += ProcessorSeconds() - start;
    EXPECT_EQ(dst[0], 0.125f * static_cast<float>(matrix.in));
  }
  return seconds;
}

class PrefillSpeedTest : public ::testing::TestWithParam<Numerics> {};

TEST_P(PrefillSpeedTest, IsTenTimesThatOfPlainLoops) {
  if (DefaultModelPath().empty()) {
    GTEST_SKIP() << "the default model is not here: deploy/fetch-model";
  }
  constexpr int64_t kTokens = 512;
  constexpr int64_t kShare = 64;  // of the tokens, in plain loops
  const auto engine =
      MakeEngine({.model_path = DefaultModelPath(), .numerics = GetParam()});
  ASSERT_NE(engine, nullptr);
  TestSequence prompt;
  for (int64_t i = 0; i < kTokens; ++i) {
    prompt.prompt.push_back(static_cast<int32_t>(100 + (i * 7919) % 40000));
  }

  const double start = ProcessorSeconds();
  RunTogether(*engine, {&prompt});
  const double prefill = ProcessorSeconds() - start;

  ASSERT_TRUE(prompt.status.ok()) << prompt.status;
  const double naive =
      NaiveSeconds(engine->model().config, kTokens / kShare) * kShare;
  RecordProperty("times", static_cast<int>(naive / prefill));
  EXPECT_LT(10 * prefill, naive);
}

INSTANTIATE_TEST_SUITE_P(Numerics, PrefillSpeedTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
