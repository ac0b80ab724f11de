// What is captured around each product and norm fits together: a reader can
// compute the one side from the other and the model's weights.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/numerics_param.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

using Row = std::vector<float>;

class IdentitiesTest : public ::testing::TestWithParam<Numerics> {
 protected:
  static constexpr int64_t kPrompt = 37;

  void SetUp() override {
    const std::string path =
        WriteGgufModel(model_, folder_.Join("tiny.gguf"),
                       {.dtype = DType::kQ8_0})  // holds the same numbers
            .front();
    engine_ = MakeEngine(
        {.model_path = path, .numerics = GetParam(), .num_threads = 2});
    ASSERT_NE(engine_, nullptr);
    for (int64_t i = 0; i < kPrompt; ++i) {
      test_.prompt.push_back(static_cast<int32_t>(3 + i * 37 % 250));
    }
    test_.max_tokens = 4;
    test_.capture = CaptureEverything(*engine_);
    RunTogether(*engine_, {&test_});
  }

  const Row& At(HookPoint hook, int32_t layer, int64_t position) const {
    return test_.rows.at(hook, layer, position);
  }
  const std::vector<float>& Weights(const std::string& name) {
    return TensorOf(model_, name).values;
  }
  // Every position that has a row: the token sampled last has none.
  int64_t num_rows() const { return kPrompt + test_.max_tokens - 1; }
  int32_t num_layers() const {
    return static_cast<int32_t>(engine_->model().config.num_hidden_layers);
  }
  int32_t last_layer() const { return num_layers() - 1; }

  // dst = weights . src: a float32 sum, of what fast numerics round to 127
  // steps of the largest value.
  void ExpectProduct(const std::string& name, const Row& src, const Row& dst) {
    const std::vector<float>& weights = Weights(name);
    ASSERT_EQ(weights.size(), src.size() * dst.size()) << name;
    double largest = 0;
    for (const float x : src) largest = std::max<double>(largest, std::abs(x));
    const double step = GetParam() == Numerics::kFast ? largest / 254 : 0;
    for (size_t out = 0; out < dst.size(); ++out) {
      double sum = 0;
      double tolerance = 1e-30;
      for (size_t in = 0; in < src.size(); ++in) {
        const double weight = weights[out * src.size() + in];
        sum += weight * src[in];
        tolerance += std::abs(weight) * (2e-6 * std::abs(src[in]) + step);
      }
      ASSERT_NEAR(dst[out], sum, tolerance) << name << " " << out;
    }
  }

  // normed = src / scale * weight and scale = sqrt(mean(src^2) + eps).
  void ExpectNorm(const std::string& name, const Row& src, const Row& scale,
                  const Row& normed) {
    double squares = 0;
    for (const float x : src) squares += static_cast<double>(x) * x;
    const double root =
        std::sqrt(squares / static_cast<double>(src.size()) + 1e-5);
    ASSERT_EQ(scale.size(), 1u);
    ASSERT_NEAR(scale[0], root, 1e-6 * root) << name;
    const std::vector<float>& weight = Weights(name);
    for (size_t i = 0; i < src.size(); ++i) {
      const double expected = src[i] / root * weight[i];
      ASSERT_NEAR(normed[i], expected, 1e-6 * std::abs(expected)) << name;
    }
  }

  TestModel model_ = BuildTinyModel();
  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
  TestSequence test_;
};

TEST_P(IdentitiesTest, NormsAreOfTheResidualTheyRead) {
  for (int64_t p = 0; p < num_rows(); ++p) {
    for (int32_t l = 0; l < num_layers(); ++l) {
      const std::string prefix = absl::StrCat("model.layers.", l, ".");
      ExpectNorm(prefix + "input_layernorm.weight",
                 At(HookPoint::kResidPre, l, p),
                 At(HookPoint::kAttnNormScale, l, p),
                 At(HookPoint::kAttnNormOut, l, p));
      ExpectNorm(prefix + "post_attention_layernorm.weight",
                 At(HookPoint::kResidMid, l, p),
                 At(HookPoint::kMlpNormScale, l, p),
                 At(HookPoint::kMlpNormOut, l, p));
    }
    ExpectNorm("model.norm.weight", At(HookPoint::kResidPost, last_layer(), p),
               At(HookPoint::kFinalNormScale, -1, p),
               At(HookPoint::kFinalNormOut, -1, p));
  }
}

TEST_P(IdentitiesTest, ProductsAreOfWhatIsShownBeforeThem) {
  for (int64_t p = 0; p < num_rows(); ++p) {
    for (int32_t l = 0; l < num_layers(); ++l) {
      const std::string attn = absl::StrCat("model.layers.", l, ".self_attn.");
      const std::string mlp = absl::StrCat("model.layers.", l, ".mlp.");
      const Row& attn_in = At(HookPoint::kAttnNormOut, l, p);
      ExpectProduct(attn + "q_proj.weight", attn_in, At(HookPoint::kQ, l, p));
      ExpectProduct(attn + "k_proj.weight", attn_in, At(HookPoint::kK, l, p));
      ExpectProduct(attn + "v_proj.weight", attn_in, At(HookPoint::kV, l, p));
      ExpectProduct(attn + "o_proj.weight", At(HookPoint::kZ, l, p),
                    At(HookPoint::kAttnOut, l, p));
      const Row& mlp_in = At(HookPoint::kMlpNormOut, l, p);
      ExpectProduct(mlp + "gate_proj.weight", mlp_in,
                    At(HookPoint::kMlpGate, l, p));
      ExpectProduct(mlp + "up_proj.weight", mlp_in,
                    At(HookPoint::kMlpUp, l, p));
      ExpectProduct(mlp + "down_proj.weight", At(HookPoint::kMlpAct, l, p),
                    At(HookPoint::kMlpOut, l, p));
    }
  }
}

TEST_P(IdentitiesTest, TheMlpsActivationIsOfItsGate) {
  for (int64_t p = 0; p < num_rows(); ++p) {
    for (int32_t l = 0; l < num_layers(); ++l) {
      const Row& gate = At(HookPoint::kMlpGate, l, p);
      const Row& up = At(HookPoint::kMlpUp, l, p);
      const Row& act = At(HookPoint::kMlpAct, l, p);
      for (size_t i = 0; i < act.size(); ++i) {
        const double expected =
            gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
        ASSERT_NEAR(act[i], expected, 2e-6 * std::abs(expected) + 1e-12);
      }
    }
  }
}

TEST_P(IdentitiesTest, TheLastResidualUnembedsToTheServedLogits) {
  for (int64_t p = 0; p < num_rows(); ++p) {
    const Row& logits = At(HookPoint::kLogits, -1, p);
    ExpectProduct("lm_head.weight", At(HookPoint::kFinalNormOut, -1, p),
                  logits);
    if (p < kPrompt - 1) continue;
    const auto best = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(best - logits.begin(),
              test_.generated[static_cast<size_t>(p - kPrompt + 1)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, IdentitiesTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
