// The engine on a real trained model, stories260K of llama2.c, against a
// float64 forward pass and llama2.c's own output.
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "engine/tensor/block_formats.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/rewrite_model.h"

namespace headrace {
namespace {

// Greedy continuation of BOS; float64 oracle, equal to llama2.c's output.
constexpr int32_t kGreedy[] = {403, 407, 261, 378, 432, 383, 286, 261, 376, 298,
                               315, 421, 395, 317, 426, 338, 401, 396, 267, 337,
                               410, 408, 419, 292, 411, 322, 265, 282, 295, 433,
                               426, 385, 328, 432, 358, 394, 261, 370, 432, 352,
                               266, 268, 388, 426, 338, 391, 266};

class Stories260kTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (StoriesPath().empty()) GTEST_SKIP() << "stories260K is not here";
    engine_ = MakeEngine({.model_path = StoriesPath(),
                          .numerics = Numerics::kExact,
                          .num_threads = 2});
    ASSERT_NE(engine_, nullptr);
  }
  TestSequence Greedy(int64_t tokens) const {
    TestSequence test;
    test.prompt = {1};
    test.max_tokens = tokens;
    return test;
  }
  // Top logit where token `index` is decided.
  float TopLogit(TestSequence& test, int64_t index) {
    test.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
    test.capture.rows.prompt.all = true;
    test.capture.rows.generated.all = true;
    RunTogether(*engine_, {&test});
    const std::vector<float>& logits =
        test.rows.at(HookPoint::kLogits, -1, index);
    return *std::max_element(logits.begin(), logits.end());
  }
  std::vector<int32_t> First(int64_t n) const { return {kGreedy, kGreedy + n}; }

  std::unique_ptr<Engine> engine_;
};

TEST_F(Stories260kTest, ContinuesAsLlama2c) {
  TestSequence test = Greedy(std::size(kGreedy));

  RunTogether(*engine_, {&test});

  EXPECT_THAT(test.generated, ::testing::ElementsAreArray(kGreedy));
}

TEST_F(Stories260kTest, ResidualRowsMatchTheFloat64Oracle) {
  TestSequence test = Greedy(1);
  test.capture = CaptureEverything(*engine_);

  RunTogether(*engine_, {&test});

  struct Expected {
    float x[3];
    double sum_of_squares;
  };
  const Expected expected[] = {
      {{0.347779f, -1.344605f, 1.422444f}, 67.469685},
      {{0.745879f, -1.432412f, 1.208760f}, 107.347916},
      {{0.703425f, -1.634341f, 1.170141f}, 149.268672},
      {{0.650100f, -1.368619f, 0.788623f}, 256.837522},
      {{0.975711f, -2.262857f, 0.239846f}, 347.746485}};
  for (int32_t layer = 0; layer < 5; ++layer) {
    const std::vector<float>& row =
        test.rows.at(HookPoint::kResidPost, layer, 0);
    // The oracle is printed to six decimals; float32 adds about 1e-6.
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(row[i], expected[layer].x[i], 5e-6) << layer << " " << i;
    }
    double sum = 0;
    for (const float x : row) sum += static_cast<double>(x) * x;
    EXPECT_NEAR(sum, expected[layer].sum_of_squares,
                2e-6 * expected[layer].sum_of_squares);
  }
}

TEST_F(Stories260kTest, LogitsMatchTheFloat64Oracle) {
  TestSequence test = Greedy(200);
  test.capture = CaptureEverything(*engine_);

  RunTogether(*engine_, {&test});

  const auto logit = [&](int64_t position, int32_t id) {
    return test.rows.at(HookPoint::kLogits, -1, position)[id];
  };
  // Printed to five decimals; float32 over five layers adds about 1e-5.
  constexpr double kTolerance = 3e-5;
  EXPECT_NEAR(logit(0, 403), 17.02352, kTolerance);
  EXPECT_NEAR(logit(0, 385), 15.40621, kTolerance);
  EXPECT_NEAR(logit(0, 410), 13.10826, kTolerance);
  const std::vector<float>& first = test.rows.at(HookPoint::kLogits, -1, 0);
  // A sum of 512 values, each with that error.
  EXPECT_NEAR(std::accumulate(first.begin(), first.end(), 0.0), -1070.17223,
              2e-3);
  EXPECT_NEAR(logit(10, 315), 15.60530, kTolerance);
  EXPECT_NEAR(logit(10, 420), 9.20698, kTolerance);
  EXPECT_NEAR(logit(199, 358), 16.77629, kTolerance);
  EXPECT_NEAR(logit(199, 366), 14.06973, kTolerance);
}

TEST_F(Stories260kTest, EveryResidualIdentityIsExact) {
  TestSequence test = Greedy(40);
  test.capture = CaptureEverything(*engine_);

  RunTogether(*engine_, {&test});

  EXPECT_EQ(test.rows.calls, static_cast<int64_t>(test.rows.rows.size()))
      << "a row came twice";
  EXPECT_EQ(test.checks.rows_checked, 40);
  EXPECT_EQ(test.checks.resid_mid_checked, 40 * 5);
  EXPECT_EQ(test.checks.resid_mid_failed, 0);
  EXPECT_EQ(test.checks.resid_post_checked, 40 * 5);
  EXPECT_EQ(test.checks.resid_post_failed, 0);
  // Eleven roundings of a float32 sum.
  EXPECT_LT(test.checks.max_sum_relative_error, 1e-6);
  EXPECT_EQ(test.rows.at(HookPoint::kResidPre, 0, 7),
            test.rows.at(HookPoint::kEmbed, -1, 7));
  EXPECT_EQ(test.rows.at(HookPoint::kResidPre, 3, 7),
            test.rows.at(HookPoint::kResidPost, 2, 7));
}

TEST_F(Stories260kTest, LinearScalingChangesTheTextWhereTheOracleSays) {
  TestSequence test = Greedy(25);
  test.rope.kind = RopeRequest::Kind::kScaling;
  test.rope.scaling.type = RopeType::kLinear;
  test.rope.scaling.factor = 2;

  const float top = TopLogit(test, 23);

  std::vector<int32_t> expected = First(11);
  const int32_t tail[] = {421, 414, 294, 411, 426, 291, 298,
                          421, 327, 421, 425, 411, 286};
  expected.insert(expected.end(), std::begin(tail), std::end(tail));
  test.generated.resize(expected.size());
  EXPECT_EQ(test.generated, expected);
  EXPECT_NEAR(top, 12.43847, 3e-5);
}

// Frequencies of nothing: no position at all.
TEST_F(Stories260kTest, WithoutAPositionTheTextChangesWhereTheOracleSays) {
  TestSequence test = Greedy(25);
  test.rope.kind = RopeRequest::Kind::kScaling;
  test.rope.scaling.type = RopeType::kLinear;
  test.rope.scaling.factor = 1e12;

  const float top = TopLogit(test, 23);

  std::vector<int32_t> expected = First(12);
  expected.insert(expected.end(), {310, 269});
  test.generated.resize(expected.size());
  EXPECT_EQ(test.generated, expected);
  EXPECT_NEAR(top, 16.41807, 3e-5);
}

// The wrong pairing of lanes stays unnoticed for ten tokens.
TEST_F(Stories260kTest, TheOtherPairingIsWhatTheOracleCallsWrong) {
  const auto source = OpenWeightSource(StoriesPath());
  ASSERT_TRUE(source.ok()) << source.status();
  TestModel model = ReadModel(**source);
  const TempFolder folder;
  const std::string path =
      WriteGgufModel(model, folder.Join("interleaved.gguf")).front();
  const auto interleaved = OpenWeightSource(path);
  ASSERT_TRUE(interleaved.ok()) << interleaved.status();
  for (FloatTensor& tensor : model.tensors) {
    const StoredTensor* const stored =
        (*interleaved)->Find(GgufTensorName(tensor.name));
    ASSERT_NE(stored, nullptr) << tensor.name;
    DequantizeRow(DType::kF32, stored->view.data, tensor.values);
  }
  WriteHuggingFaceFolder(model, folder.Join("half_split"));
  engine_ = MakeEngine({.model_path = folder.Join("half_split"),
                        .numerics = Numerics::kExact,
                        .num_threads = 1});
  ASSERT_NE(engine_, nullptr);
  TestSequence test = Greedy(25);

  const float top = TopLogit(test, 23);

  std::vector<int32_t> expected = First(10);
  expected.insert(expected.end(), {309, 415, 284});
  test.generated.resize(expected.size());
  EXPECT_EQ(test.generated, expected);
  EXPECT_NEAR(top, 10.71584, 3e-5);
}

TEST_F(Stories260kTest, YarnGivesTheOraclesLogit) {
  TestSequence test = Greedy(25);
  test.rope.kind = RopeRequest::Kind::kScaling;
  test.rope.scaling.type = RopeType::kYarn;
  test.rope.scaling.factor = 4;
  test.rope.scaling.original_max_position_embeddings = 128;

  const float top = TopLogit(test, 23);

  EXPECT_EQ(test.generated, First(25));
  EXPECT_NEAR(top, 17.33355, 3e-5);
}

TEST_F(Stories260kTest, Llama3ScalingGivesTheOraclesLogit) {
  TestSequence test = Greedy(25);
  test.rope.kind = RopeRequest::Kind::kScaling;
  test.rope.scaling.type = RopeType::kLlama3;
  test.rope.scaling.factor = 8;
  test.rope.scaling.original_max_position_embeddings = 128;

  const float top = TopLogit(test, 23);

  std::vector<int32_t> expected = First(20);
  const int32_t tail[] = {335, 311, 267, 422};
  expected.insert(expected.end(), std::begin(tail), std::end(tail));
  test.generated.resize(expected.size());
  EXPECT_EQ(test.generated, expected);
  EXPECT_NEAR(top, 16.55894, 3e-5);
}

TEST_F(Stories260kTest, UnscaledTopLogitIsTheOracles) {
  TestSequence test = Greedy(25);

  EXPECT_NEAR(TopLogit(test, 23), 19.09343, 3e-5);
}

}  // namespace
}  // namespace headrace
