// Packed matrices (GPTQ, AWQ) word by word, and checkpoints that contradict
// themselves. Whole models of the libraries' own making:
// tests/engine/packed_weights_test.cc.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/half.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"
#include "tests/testing/open_source.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

std::string Words(size_t count, uint32_t word) {
  return Bytes(std::vector<uint32_t>(count, word));
}

std::string Halves(size_t count, float value) {
  return Bytes(std::vector<uint16_t>(count, FloatToHalf(value)));
}

// A folder with one matrix of 16 outputs and 64 inputs in two groups; every
// test changes something.
class PackedTensorsTest : public ::testing::Test {
 protected:
  SafetensorsEntry& Part(const std::string& name) {
    for (SafetensorsEntry& entry : parts_) {
      if (entry.name == name) return entry;
    }
    return parts_.emplace_back(SafetensorsEntry{.name = name});
  }
  void Remove(const std::string& name) {
    std::erase_if(parts_, [&](const SafetensorsEntry& entry) {
      return entry.name == name;
    });
  }
  void UseAwq() {
    config_ = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}};
    Part("x.qweight").shape = {64, 2};
    Remove("x.g_idx");
  }
  // Two groups of 32 inputs each.
  static std::vector<int32_t> Groups() {
    std::vector<int32_t> groups(64, 0);
    std::fill(groups.begin() + 32, groups.end(), 1);
    return groups;
  }

  const std::string& Write() {
    const Json config = {{"quantization_config", config_}};
    WriteFile(folder_.Join("config.json"), config.dump());
    WriteFile(folder_.Join("model.safetensors"), SerializeSafetensors(parts_));
    return folder_.path();
  }
  absl::Status OpenStatus() { return OpenWeightSource(Write()).status(); }
  std::unique_ptr<WeightSource> OpenGood() { return OpenSource(Write()); }
  std::vector<float> Row(int64_t row) {
    const auto source = OpenGood();
    std::vector<float> values(64);
    DequantizeRow(source->Find("x.weight")->view, row, values);
    return values;
  }
  DType Type() { return OpenGood()->Find("x.weight")->view.dtype; }

  TempFolder folder_;
  Json config_ = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  std::vector<SafetensorsEntry> parts_ = {
      {"x.qweight", "I32", {8, 16}, Words(128, 0x76543210)},
      {"x.qzeros", "I32", {2, 2}, Words(4, 0x77777777)},
      {"x.scales", "F16", {2, 16}, Halves(32, 0.5f)},
      {"x.g_idx", "I32", {64}, Bytes(Groups())}};
};

TEST_F(PackedTensorsTest, GptqWordsRunAlongTheInputs) {
  const std::vector<float> row = Row(3);

  for (size_t k = 0; k < 64; ++k) {
    EXPECT_EQ(row[k], 0.5f * (static_cast<float>(k % 8) - 8)) << k;
  }
}

TEST_F(PackedTensorsTest, AwqWordsInterleaveTheOutputs) {
  UseAwq();
  Part("x.qzeros").bytes = Words(4, 0x88888888);

  const int numbers[] = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int64_t row = 0; row < 16; ++row) {
    EXPECT_THAT(Row(row), Each(0.5f * static_cast<float>(numbers[row % 8] - 8)))
        << row;
  }
}

TEST_F(PackedTensorsTest, ZeroPointsOfTheFirstFormatAreOneMore) {
  Part("x.qzeros").bytes = Words(4, 0x03020100);

  EXPECT_EQ(Row(0)[0], -0.5f);
  EXPECT_EQ(Row(6)[0], -0.5f * 4);
  config_["checkpoint_format"] = "gptq_v2";
  EXPECT_EQ(Row(0)[0], 0);
  EXPECT_EQ(Row(6)[0], -0.5f * 3);
}

// Zero points 0, 9, 9, … minus one from each is a subtraction of 0x11111111
// that borrows, as GPTQModel's convert_gptq_v2_to_v1_format does.
TEST_F(PackedTensorsTest, BorrowsAmongZeroPointsAreUndone) {
  Part("x.qzeros").bytes = Words(4, 0x99999990u - 0x11111111u);

  EXPECT_EQ(Row(0)[0], 0);
  EXPECT_EQ(Row(1)[0], -0.5f * 9);
  EXPECT_EQ(Row(7)[0], -0.5f * 9);
}

TEST_F(PackedTensorsTest, AwqZeroPointsInterleaveTheOutputs) {
  UseAwq();
  Part("x.qzeros").bytes = Words(4, 0x76543210);

  for (int64_t row = 0; row < 16; ++row) EXPECT_THAT(Row(row), Each(0));
}

TEST_F(PackedTensorsTest, EightBitsAreABytePerInput) {
  config_["bits"] = 8;
  Part("x.qweight").shape = {16, 16};
  Part("x.qweight").bytes = Words(256, 0xFF800100);
  Part("x.qzeros").shape = {2, 4};
  Part("x.qzeros").bytes = Words(8, 0x7F7F7F7F);

  EXPECT_EQ(Type(), DType::kQ8_0);
  EXPECT_THAT(std::vector(Row(5)), Contains(0.5f * 127));
  Part("x.qzeros").bytes = Words(8, 0x00FF7F7F);
  EXPECT_EQ(Type(), DType::kQ8_Z);
  const std::vector<float> row = Row(3);
  EXPECT_THAT(std::vector(row.begin(), row.begin() + 4),
              ElementsAre(-0.5f * 2, -0.5f, 0.5f * 126, 0.5f * 253));
}

TEST_F(PackedTensorsTest, AMiddleZeroPointEverywhereIsQ4WithoutOne) {
  EXPECT_EQ(Type(), DType::kQ4_0);
  std::string zeros = Words(4, 0x77777777);
  zeros.back() = 0x67;
  Part("x.qzeros").bytes = zeros;
  EXPECT_EQ(Type(), DType::kQ4_Z);
}

TEST_F(PackedTensorsTest, OneGroupMayBeTheWholeRow) {
  config_["group_size"] = -1;
  Part("x.qzeros") = {"x.qzeros", "I32", {1, 2}, Words(2, 0x77777777)};
  Part("x.scales") = {"x.scales", "F16", {1, 16}, Halves(16, 0.25f)};
  Part("x.g_idx").bytes = Words(64, 0);

  EXPECT_EQ(Row(0)[63], 0.25f * -1);
  Remove("x.g_idx");
  EXPECT_EQ(Row(0)[63], 0.25f * -1);
  EXPECT_EQ(Type(), DType::kQ4_0);
}

TEST_F(PackedTensorsTest, TheLastGroupMayBeShort) {
  config_["group_size"] = 48;
  Remove("x.g_idx");
  std::string scales = Halves(16, 1);
  scales += Halves(16, 2);
  Part("x.scales").bytes = scales;

  const std::vector<float> row = Row(0);
  EXPECT_EQ(row[40], -8);
  EXPECT_EQ(row[48], -16);
}

TEST_F(PackedTensorsTest, ScalesOfOtherTypesAreThoseNumbers) {
  Part("x.scales") = {
      "x.scales",
      "BF16",
      {2, 16},
      Bytes(std::vector<uint16_t>(32, FloatToBFloat16(0.375f)))};
  EXPECT_EQ(Type(), DType::kQ4_0);
  EXPECT_EQ(Row(0)[0], -3);
  Part("x.scales") = {
      "x.scales", "F32", {2, 16}, Bytes(std::vector<float>(32, 0.375f))};
  EXPECT_EQ(Type(), DType::kQ4_0);
  EXPECT_EQ(Row(0)[0], -3);
}

TEST_F(PackedTensorsTest, ScalesThatAreNoHalvesAreKeptInFloat) {
  Part("x.scales") = {
      "x.scales", "F32", {2, 16}, Bytes(std::vector<float>(32, 0.1f))};

  EXPECT_EQ(Type(), DType::kF32);
  EXPECT_EQ(Row(0)[0], 0.1f * -8);
  EXPECT_THAT(OpenGood()->warnings(), ElementsAre(::testing::AllOf(
                                          HasSubstr("x.weight"),
                                          HasSubstr("4096 bytes instead of "
                                                    "512"),
                                          HasSubstr("scale 0.1 of output 0"))));
}

TEST_F(PackedTensorsTest, InputsMayBelongToGroupsInAnyOrder) {
  std::vector<int32_t> groups(64);
  for (int32_t k = 0; k < 64; ++k) groups[k] = k % 2;
  Part("x.g_idx").bytes = Bytes(groups);
  Part("x.scales").bytes = Halves(16, 1) + Halves(16, 2);
  config_["desc_act"] = true;

  const std::vector<float> row = Row(0);
  for (size_t k = 0; k < 64; ++k) {
    EXPECT_EQ(row[k],
              (k % 2 == 0 ? 1.0f : 2.0f) * (static_cast<float>(k % 8) - 8));
  }
  EXPECT_EQ(Type(), DType::kQ4_0);
  const auto source = OpenGood();
  const std::span<const int32_t> order = source->Find("x.weight")->view.order();
  ASSERT_EQ(order.size(), 64u);
  EXPECT_EQ(order[1], 2);
  EXPECT_EQ(order[32], 1);
}

TEST_F(PackedTensorsTest, GroupsThatShareABlockAreKeptInFloat) {
  std::vector<int32_t> groups = Groups();
  groups[40] = 0;
  Part("x.g_idx").bytes = Bytes(groups);
  Part("x.scales").bytes = Halves(16, 1) + Halves(16, 2);

  EXPECT_EQ(Type(), DType::kF32);
  EXPECT_EQ(Row(0)[41], 2 * -7);
  EXPECT_EQ(Row(0)[40], -8);
  EXPECT_TRUE(OpenGood()->Find("x.weight")->view.order().empty());
}

TEST_F(PackedTensorsTest, OrdersWithTheSameRowsDifferInHash) {
  Part("x.qweight").bytes = Words(128, 0x55555555);
  std::vector<int32_t> groups(64);
  for (int32_t k = 0; k < 64; ++k) groups[k] = k % 2;
  Part("x.g_idx").bytes = Bytes(groups);
  const std::string first = HashWeights(*OpenGood());
  for (int32_t k = 0; k < 64; ++k) groups[k] = k / 2 % 2;
  Part("x.g_idx").bytes = Bytes(groups);
  EXPECT_NE(HashWeights(*OpenGood()), first);
}

TEST_F(PackedTensorsTest, ExceptionsHaveTheirBitsAndGroupsInTheirShapes) {
  config_["dynamic"] = {{"x", {{"bits", 8}, {"group_size", 16}}}};
  Part("x.qweight") = {"x.qweight", "I32", {16, 16}, Words(256, 0x80808080)};
  Part("x.qzeros") = {"x.qzeros", "I32", {4, 4}, Words(16, 0x7F7F7F7F)};
  Part("x.scales") = {"x.scales", "F16", {4, 16}, Halves(64, 1)};
  Remove("x.g_idx");

  EXPECT_THAT(Row(0), Each(0));
  Part("x.qzeros") = {"x.qzeros", "I32", {4, 3}, Words(12, 0)};
  EXPECT_THAT(OpenStatus(), IsDataLoss("x.qzeros", "[4, 3]", "4 or 8 bits"));
}

TEST_F(PackedTensorsTest, FormatsThatReadTheSameBytesDifferentlyDifferInHash) {
  const std::string first = HashWeights(*OpenGood());
  config_["checkpoint_format"] = "gptq_v2";
  EXPECT_NE(HashWeights(*OpenGood()), first);
}

TEST_F(PackedTensorsTest, PlainTensorsBesideThemStay) {
  parts_.push_back({"y.weight", "F16", {2, 2}, Halves(4, 1)});

  const auto source = OpenGood();
  EXPECT_EQ(source->Find("y.weight")->view.dtype, DType::kF16);
  EXPECT_EQ(source->tensors().size(), 2u);
  EXPECT_THAT(source->warnings(), IsEmpty());
  EXPECT_EQ(source->format_name(), "safetensors GPTQ");
}

TEST_F(PackedTensorsTest, PartsMayBeInDifferentShards) {
  const std::string whole = HashWeights(*OpenGood());
  std::filesystem::remove(folder_.Join("model.safetensors"));
  Json weight_map = Json::object();
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = ShardName("model", i, 2, ".safetensors");
    const std::span<const SafetensorsEntry> half =
        std::span(parts_).subspan(2 * i, 2);
    for (const SafetensorsEntry& entry : half) weight_map[entry.name] = name;
    WriteFile(folder_.Join(name), SerializeSafetensors(half));
  }
  WriteFile(folder_.Join("model.safetensors.index.json"),
            Json({{"weight_map", weight_map}}).dump());

  const auto source = OpenWeightSource(folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(HashWeights(**source), whole);
}

TEST_F(PackedTensorsTest, AMatrixBothPackedAndPlainIsRefused) {
  parts_.push_back({"x.weight", "F16", {2, 2}, Halves(4, 1)});

  EXPECT_THAT(OpenStatus(), IsDataLoss("\"x.weight\"", "names are unique"));
}

TEST_F(PackedTensorsTest, AMissingPartIsNamed) {
  const std::vector<SafetensorsEntry> all = parts_;
  for (const std::string part : {"x.qweight", "x.qzeros", "x.scales"}) {
    parts_ = all;
    Remove(part);
    EXPECT_THAT(OpenStatus(), IsDataLoss(part, "missing"));
  }
}

TEST_F(PackedTensorsTest, TheOrderOfInputsMustBeThereWhereItCounts) {
  Remove("x.g_idx");
  config_["desc_act"] = true;

  EXPECT_THAT(OpenStatus(), IsDataLoss("x.g_idx", "desc_act"));
}

TEST_F(PackedTensorsTest, OtherTypesAreNamed) {
  const std::vector<SafetensorsEntry> all = parts_;
  for (const std::string part : {"x.qweight", "x.qzeros", "x.g_idx"}) {
    parts_ = all;
    Part(part).dtype = "U32";
    EXPECT_THAT(OpenStatus(), IsDataLoss(part, "U32", "I32"));
  }
  parts_ = all;
  Part("x.scales").dtype = "I16";
  EXPECT_THAT(OpenStatus(), IsDataLoss("x.scales", "I16", "F16, BF16 or F32"));
}

TEST_F(PackedTensorsTest, ShapesThatDoNotFitAreNamed) {
  const std::vector<SafetensorsEntry> all = parts_;
  const auto status_with = [&](const SafetensorsEntry& part) {
    parts_ = all;
    Part(part.name) = part;
    return OpenStatus();
  };
  EXPECT_THAT(status_with({"x.scales", "F16", {2, 15}, Halves(30, 1)}),
              IsDataLoss("x.scales", "[2, 15]", "[2, 16]"));
  EXPECT_THAT(status_with({"x.qzeros", "I32", {2, 3}, Words(6, 0)}),
              IsDataLoss("x.qzeros", "[2, 3]", "[2, 2]"));
  EXPECT_THAT(status_with({"x.qzeros", "I32", {4}, Words(4, 0)}),
              IsDataLoss("x.qzeros", "[4]", "matrix"));
  EXPECT_THAT(status_with({"x.qweight", "I32", {0, 16}, ""}),
              IsDataLoss("x.qweight", "[0, 16]"));
  EXPECT_THAT(status_with({"x.qweight", "I32", {8, 12}, Words(96, 0)}),
              IsDataLoss("x.qweight", "12 outputs", "multiple of 8"));
  EXPECT_THAT(status_with({"x.g_idx", "I32", {63}, Words(63, 0)}),
              IsDataLoss("x.g_idx", "[63]", "[64]"));
  EXPECT_THAT(status_with({"x.scales", "F16", {3, 16}, Halves(48, 1)}),
              IsDataLoss("x.qzeros", "[2, 2]", "[3, 2]"));
}

TEST_F(PackedTensorsTest, GroupsThatContradictTheConfigurationAreNamed) {
  config_["group_size"] = 64;

  EXPECT_THAT(OpenStatus(), IsDataLoss("x.scales", "2 groups",
                                       "group_size = 64", "1 of 64 inputs"));
}

TEST_F(PackedTensorsTest, GroupsThatDoNotExistAreNamed) {
  for (const int32_t group : {-1, 2, 2147483647}) {
    std::vector<int32_t> groups = Groups();
    groups[17] = group;
    Part("x.g_idx").bytes = Bytes(groups);
    EXPECT_THAT(OpenStatus(), IsDataLoss("x.g_idx", absl::StrCat(group),
                                         "input 17", "[0, 2)"));
  }
}

TEST_F(PackedTensorsTest, PackedPartsWithoutAConfigurationAreRefused) {
  config_ = nullptr;

  EXPECT_THAT(OpenStatus(), IsDataLoss("x.qweight", "quantization_config"));
}

TEST_F(PackedTensorsTest, FieldsOfAnotherTypeAreNamed) {
  const Json good = config_;
  const std::pair<std::string, Json> fields[] = {
      {"quant_method", 4},
      {"bits", "4"},
      {"bits", 4.5},
      {"group_size", "32"},
      {"desc_act", "yes"},
      {"is_marlin_format", 1},
      {"checkpoint_format", Json::array()},
      {"dynamic", "lm_head"},
      {"dynamic", Json::array({"lm_head"})},
      {"dynamic", true}};
  for (const auto& [name, value] : fields) {
    config_ = good;
    config_[name] = value;
    EXPECT_THAT(OpenStatus(), IsDataLoss("quantization_config." + name,
                                         value.dump(), ", not "));
  }
  for (const Json& whole : {Json::array({1}), Json("gptq"), Json(4)}) {
    config_ = whole;
    EXPECT_THAT(
        OpenStatus(),
        IsDataLoss("quantization_config is " + whole.dump(), "not an object"));
  }
}

struct Refused {
  std::string name;
  Json config;
  std::vector<std::string> words;
};

class QuantizationConfigTest : public ::testing::TestWithParam<Refused> {};

TEST_P(QuantizationConfigTest, WhatIsNotSupportedIsNamed) {
  TempFolder folder;
  const Json config = {{"quantization_config", GetParam().config}};
  WriteFile(folder.Join("config.json"), config.dump());
  WriteFile(folder.Join("model.safetensors"), SerializeSafetensors({}));

  EXPECT_THAT(OpenWeightSource(folder.path()).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizationConfigTest,
    ::testing::Values(
        Refused{"CompressedTensors",
                {{"quant_method", "compressed-tensors"}},
                {"quantization_config.quant_method", "\"compressed-tensors\"",
                 "\"gptq\", \"awq\""}},
        Refused{"BitsAndBytes",
                {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}},
                {"quant_method", "\"bitsandbytes\""}},
        Refused{"Fp8", {{"quant_method", "fp8"}}, {"\"fp8\""}},
        Refused{"NoMethod", {{"bits", 4}}, {"quant_method", "missing"}},
        Refused{"GptqOfThreeBits",
                {{"quant_method", "gptq"}, {"bits", 3}},
                {"quantization_config.bits", "is 3", "4, 8"}},
        Refused{"AwqOfEightBits",
                {{"quant_method", "awq"}, {"bits", 8}},
                {"quantization_config.bits", "is 8", "supported: 4"}},
        Refused{"AwqForVectors",
                {{"quant_method", "awq"}, {"bits", 4}, {"version", "GEMV"}},
                {"quantization_config.version", "\"gemv\"", "\"gemm\""}},
        Refused{"LlmAwq",
                {{"quant_method", "awq"}, {"bits", 4}, {"backend", "llm-awq"}},
                {"quantization_config.backend", "\"llm-awq\"", "\"autoawq\""}},
        Refused{"Marlin",
                {{"quant_method", "gptq"},
                 {"bits", 4},
                 {"checkpoint_format", "marlin"}},
                {"checkpoint_format", "\"marlin\"", "\"gptq_v2\""}},
        Refused{
            "MarlinFlag",
            {{"quant_method", "gptq"}, {"bits", 4}, {"is_marlin_format", true}},
            {"is_marlin_format", "true"}},
        Refused{"NoGroups",
                {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 0}},
                {"group_size", "is 0"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headrace
