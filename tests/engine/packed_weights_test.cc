// GPTQ, AWQ and compressed-tensors checkpoints that their own libraries packed
// (tests/golden/packed_weights), against what those libraries expand them to
// and what transformers computes from that.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tensor/block_formats.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_harness.h"
#include "tests/engine/golden_arrays.h"
#include "tests/testing/files.h"
#include "tests/testing/open_source.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Those of a checkpoint.
const GoldenArrays& GoldensOf(const std::string& name) {
  static const auto& packed =
      *new GoldenArrays("packed_weights/packed_goldens");
  static const auto& compressed =
      *new GoldenArrays("packed_weights/compressed_goldens");
  return name.starts_with("ct_") ? compressed : packed;
}

std::string PathOf(const std::string& name) {
  return absl::StrCat(HEADRACE_SOURCE_DIR, "/tests/golden/packed_weights/",
                      name);
}

TestSequence SequenceOf(const std::vector<int32_t>& ids) {
  TestSequence test;
  test.prompt = ids;
  test.capture = CapturePromptLogits();
  return test;
}

std::vector<float> LogitsOf(const EngineOptions& options,
                            const std::vector<int32_t>& ids) {
  const auto engine = MakeEngine(options);
  if (engine == nullptr) return {};
  TestSequence test = SequenceOf(ids);
  RunTogether(*engine, {&test});
  return PromptLogits(test);
}

// The mean over rows of how far the predictions of `q` are from those of `p`.
double KlDivergence(std::span<const float> p, std::span<const float> q,
                    size_t vocab_size) {
  const auto log_sum = [&](std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    return std::log(sum);
  };
  double total = 0;
  for (size_t row = 0; row < p.size(); row += vocab_size) {
    const auto of_p = p.subspan(row, vocab_size);
    const auto of_q = q.subspan(row, vocab_size);
    const double shift = log_sum(of_q) - log_sum(of_p);
    for (size_t i = 0; i < vocab_size; ++i) {
      total += std::exp(of_p[i] - log_sum(of_p)) *
               (double{of_p[i]} - double{of_q[i]} + shift);
    }
  }
  const size_t num_rows = p.size() / vocab_size;
  return total / static_cast<double>(num_rows);
}

class PackedWeightsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const nlohmann::json& golden : Goldens().json["cases"]) {
      if (golden["name"] == GetParam()) golden_ = golden;
    }
    ASSERT_FALSE(golden_.is_null());
    ids_ = golden_["ids"].get<std::vector<int32_t>>();
  }

  static const GoldenArrays& Goldens() { return GoldensOf(GetParam()); }

  EngineOptions Options(Numerics numerics, int threads = 1) const {
    return {.model_path = PathOf(GetParam()),
            .numerics = numerics,
            .num_threads = threads};
  }

  nlohmann::json golden_;
  std::vector<int32_t> ids_;
};

TEST_P(PackedWeightsTest, RowsAreTheLibrarysInEveryBit) {
  const auto source = OpenSource(PathOf(GetParam()));
  ASSERT_NE(source, nullptr);

  for (const auto& [name, where] : golden_["rows"].items()) {
    const StoredTensor* tensor = source->Find(name);
    ASSERT_NE(tensor, nullptr) << name;
    const TensorView& view = tensor->view;
    const std::span<const float> expected = Goldens().Array(where);
    const auto width = static_cast<size_t>(view.dim(1));
    ASSERT_EQ(expected.size(), 3 * width);
    const int64_t rows[] = {0, 13, view.dim(0) - 1};
    for (size_t i = 0; i < 3; ++i) {
      std::vector<float> row(width);
      DequantizeRow(view, rows[i], row);
      EXPECT_THAT(
          row, ::testing::ElementsAreArray(expected.subspan(i * width, width)))
          << name << " row " << rows[i];
    }
  }
}

TEST_P(PackedWeightsTest, ExactLogitsAreThoseOfTransformers) {
  const std::vector<float> logits = LogitsOf(Options(Numerics::kExact), ids_);

  const std::span<const float> expected = Goldens().Array(golden_["logits"]);
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_NEAR(logits[i], expected[i], 5e-5) << i;
  }
}

TEST_P(PackedWeightsTest, FastLogitsAreNearTheExactOnes) {
  const std::vector<float> fast = LogitsOf(Options(Numerics::kFast), ids_);

  const std::span<const float> exact = Goldens().Array(golden_["logits"]);
  ASSERT_EQ(fast.size(), exact.size());
  // Activations of 7 bits and a sign.
  EXPECT_LT(RelativeError(fast, exact), 0.02);
  // 5e-6 where it is most, for groups and for whole rows.
  const double divergence = KlDivergence(exact, fast, 64);
  RecordProperty("kl_divergence", absl::StrCat(divergence));
  EXPECT_LT(divergence, 2e-5);
}

TEST_P(PackedWeightsTest, ChunksThreadsAndCompanyChangeNoBit) {
  std::vector<int32_t> ids(40);
  for (int32_t i = 0; i < 40; ++i) ids[i] = (i * 17 + 5) % 64;
  const std::vector<int32_t> others(ids.rbegin(), ids.rend());
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const std::vector<float> alone = LogitsOf(Options(numerics), ids);
    EngineOptions options = Options(numerics, 2);
    options.prefix_cache = false;
    const auto engine = MakeEngine(options);
    for (const int64_t chunk : {1, 7, 64}) {
      TestSequence test = SequenceOf(ids);
      TestSequence other = SequenceOf(others);

      RunTogether(*engine, {&other, &test}, {.chunk = chunk});

      EXPECT_EQ(PromptLogits(test), alone) << "chunk " << chunk;
    }
  }
}

TEST_P(PackedWeightsTest, WeightsPackedBeforeGiveTheSameBits) {
  const TempFolder folder;
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const std::vector<float> expected = LogitsOf(Options(numerics), ids_);
    EngineOptions options = Options(numerics);
    options.packed_cache_dir = folder.Join("cache");
    EXPECT_EQ(LogitsOf(options, ids_), expected);  // the first time: is packed
    std::set<std::string> images;
    for (const auto& entry :
         std::filesystem::directory_iterator(options.packed_cache_dir)) {
      if (entry.path().extension() == ".packed") images.insert(entry.path());
    }
    EXPECT_EQ(images.size(), 1u);
    EXPECT_EQ(LogitsOf(options, ids_), expected);  // is mapped
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, PackedWeightsTest,
    ::testing::Values("gptq_32", "gptq_v2_128", "gptq_sym_64", "gptq_act_order",
                      "gptq_8_row", "gptq_group_16", "awq_32", "awq_row",
                      "ct_w8a8", "ct_w8a8_float", "ct_w8_tensor",
                      "ct_w8a8_asym", "ct_w4a16_64", "ct_w4a16_asym",
                      "ct_w4a16_row", "ct_w8a16_row", "ct_act_order"),
    [](const auto& info) { return info.param; });

TEST(PackedWeightsTypesTest, AreTheCheapestThatHoldTheNumbers) {
  const auto types_of = [](const std::string& name) {
    std::set<std::string> types;
    const auto source = OpenSource(PathOf(name));
    for (const StoredTensor& tensor : source->tensors()) {
      if (tensor.view.maker == nullptr) continue;
      types.insert(std::string(LayoutOf(tensor.view.dtype).name));
    }
    return types;
  };

  EXPECT_THAT(types_of("gptq_32"), ElementsAre("Q4_Z"));
  EXPECT_THAT(types_of("gptq_v2_128"), ElementsAre("Q4_Z"));
  EXPECT_THAT(types_of("gptq_sym_64"), ElementsAre("Q4_0"));
  EXPECT_THAT(types_of("gptq_act_order"), ElementsAre("Q4_0"));
  EXPECT_THAT(types_of("gptq_8_row"), ElementsAre("Q8_Z"));
  EXPECT_THAT(types_of("awq_32"), ElementsAre("Q4_Z"));
  EXPECT_THAT(types_of("gptq_group_16"), ElementsAre("F32"));
  EXPECT_THAT(types_of("ct_w8a8"), ElementsAre("Q8_C"));
  EXPECT_THAT(types_of("ct_w8a8_float"), ElementsAre("Q8_C"));
  EXPECT_THAT(types_of("ct_w8_tensor"), ElementsAre("Q8_C"));
  EXPECT_THAT(types_of("ct_w8a16_row"), ElementsAre("Q8_0"));
  EXPECT_THAT(types_of("ct_w8a8_asym"), ElementsAre("Q8_Z"));
  EXPECT_THAT(types_of("ct_w4a16_64"), ElementsAre("Q4_0"));
  EXPECT_THAT(types_of("ct_w4a16_row"), ElementsAre("Q4_0"));
  EXPECT_THAT(types_of("ct_w4a16_asym"), ElementsAre("Q4_Z"));
  EXPECT_THAT(types_of("ct_act_order"), ElementsAre("Q4_0"));
}

TEST(PackedWeightsTypesTest, WhatIsKeptInFloatIsSaid) {
  const auto source = OpenSource(PathOf("gptq_group_16"));

  EXPECT_THAT(source->warnings(),
              ::testing::Contains(::testing::AllOf(
                  HasSubstr("model.layers.0.mlp.down_proj.weight"),
                  HasSubstr("32768 bytes instead of 4096"),
                  HasSubstr("groups are no multiples of 32 inputs"))));
  EXPECT_THAT(OpenSource(PathOf("gptq_32"))->warnings(), IsEmpty());
}

TEST(PackedWeightsTypesTest, TheModelSaysWhatItIs) {
  const auto engine = MakeEngine({.model_path = PathOf("awq_32")});

  EXPECT_EQ(engine->model().weight_format, "safetensors AWQ");
  EXPECT_EQ(
      MakeEngine({.model_path = PathOf("ct_w8a8")})->model().weight_format,
      "safetensors compressed-tensors");
  EXPECT_EQ(engine->model().weight_dtype, "Q4_Z");
  // Of a matrix [128, 64], packed in the file.
  EXPECT_EQ(engine->model().parameter_count,
            64 * 64 + 3 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64);
}

}  // namespace
}  // namespace headrace
