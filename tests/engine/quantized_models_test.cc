// A model stored in each quantised type: the same logits as from its numbers in
// float32, and the same bits in any company.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/rewrite_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

constexpr int64_t kRows = 40;

// Every matrix has rows of whole super-blocks.
TestModel WideTinyModel() {
  return BuildTinyModel({.hidden_size = 256,
                         .intermediate_size = 512,
                         .num_attention_heads = 4,
                         .num_key_value_heads = 2,
                         .head_dim = 64});
}

TestSequence SequenceOf(int32_t seed) {
  TestSequence test;
  for (int32_t i = 0; i < kRows; ++i) {
    test.prompt.push_back(3 + (seed * 131 + i * 17) % 250);
  }
  test.capture = CapturePromptLogits();
  return test;
}

std::vector<float> LogitsOf(const std::string& path, Numerics numerics) {
  const auto engine =
      MakeEngine({.model_path = path, .numerics = numerics, .num_threads = 1});
  TestSequence test = SequenceOf(1);
  RunTogether(*engine, {&test});
  return PromptLogits(test);
}

class QuantizedModelTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    path_ = WriteGgufModel(WideTinyModel(), folder_.Join("quantized.gguf"),
                           {.dtype = GetParam()})
                .front();
  }

  TempFolder folder_;
  std::string path_;
};

TEST_P(QuantizedModelTest, ExactLogitsAreThoseOfTheSameNumbersInFloat) {
  const auto source = OpenWeightSource(path_);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->Find("blk.0.ffn_down.weight")->view.dtype, GetParam());
  const std::string floats =
      WriteGgufModel(ReadModel(**source), folder_.Join("f32.gguf")).front();

  EXPECT_EQ(LogitsOf(path_, Numerics::kExact),
            LogitsOf(floats, Numerics::kExact));
}

TEST_P(QuantizedModelTest, FastLogitsAreNearTheExactOnes) {
  const std::vector<float> exact = LogitsOf(path_, Numerics::kExact);
  const std::vector<float> fast = LogitsOf(path_, Numerics::kFast);

  // Activations of 7 bits and a sign.
  EXPECT_LT(RelativeError(fast, exact), 0.02);
  EXPECT_GT(RelativeError(fast, exact), 0);
}

TEST_P(QuantizedModelTest, ChunksThreadsAndCompanyChangeNoBit) {
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const std::vector<float> alone = LogitsOf(path_, numerics);
    const auto engine = MakeEngine({.model_path = path_,
                                    .numerics = numerics,
                                    .num_threads = 2,
                                    .prefix_cache = false});
    for (const int64_t chunk : {1, 7, 64}) {
      TestSequence test = SequenceOf(1);
      TestSequence other = SequenceOf(2);
      TestSequence another = SequenceOf(3);

      RunTogether(*engine, {&other, &test, &another}, {.chunk = chunk});

      EXPECT_EQ(PromptLogits(test), alone) << "chunk " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, QuantizedModelTest,
    ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                      DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K),
    [](const auto& info) { return std::string(LayoutOf(info.param).name); });

}  // namespace
}  // namespace headrace
