// Packed matrices (GPTQ, AWQ, compressed-tensors) word by word, and checkpoints
// that contradict themselves. Whole models of the libraries' own making:
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
  const TempFolder folder;
  const Json config = {{"quantization_config", GetParam().config}};
  WriteFile(folder.Join("config.json"), config.dump());
  WriteFile(folder.Join("model.safetensors"), SerializeSafetensors({}));

  EXPECT_THAT(OpenWeightSource(folder.path()).status(),
              FailsWith(absl::StatusCode::kInvalidArgument, GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, QuantizationConfigTest,
    ::testing::Values(
        Refused{"NoCompressedGroups",
                {{"quant_method", "compressed-tensors"},
                 {"format", "int-quantized"}},
                {"quantization_config.config_groups", "missing"}},
        Refused{"BitsAndBytes",
                {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}},
                {"quant_method", "\"bitsandbytes\"", "\"gptq\", \"awq\"",
                 "\"compressed-tensors\""}},
        Refused{"Fp8", {{"quant_method", "fp8"}}, {"\"fp8\""}},
        Refused{"NoMethod", {{"bits", 4}}, {"quant_method", "missing"}},
        Refused{"NoBits",
                {{"quant_method", "gptq"}, {"bits", 0}},
                {"bits", "0", "4, 8"}},
        Refused{"ManyBits",
                {{"quant_method", "awq"}, {"bits", 1LL << 40}},
                {"bits", "1099511627776", "4"}},
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

// A folder of compressed-tensors with one matrix of 16 outputs and 64 inputs;
// every test changes something.
class CompressedTensorsTest : public PackedTensorsTest {
 protected:
  CompressedTensorsTest() {
    config_ = {{"quant_method", "compressed-tensors"},
               {"format", "int-quantized"},
               {"quantization_status", "compressed"},
               {"config_groups",
                {{"group_0",
                  {{"targets", {"Linear"}},
                   {"weights",
                    {{"num_bits", 8},
                     {"type", "int"},
                     {"symmetric", true},
                     {"strategy", "channel"},
                     {"dynamic", false}}},
                   {"input_activations",
                    {{"num_bits", 8},
                     {"type", "int"},
                     {"symmetric", true},
                     {"strategy", "token"},
                     {"dynamic", true}}}}}}},
               {"ignore", {"lm_head"}}};
    std::vector<int8_t> numbers(16 * 64);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int8_t>(i % 64 * 3 - 100 + i / 64);
    }
    parts_ = {{"x.weight", "I8", {16, 64}, Bytes(numbers)},
              {"x.weight_scale", "F32", {16, 1}, Bytes(std::vector(16, 0.1f))}};
  }

  Json& Group() { return config_["config_groups"]["group_0"]; }
  // Of eight numbers 7, 6, … 0 each.
  void UseWords(int bits) {
    config_["format"] = "pack-quantized";
    Group()["weights"]["num_bits"] = bits;
    Group()["input_activations"] = nullptr;
    const int64_t words = 64 * bits / 32;
    parts_ = {{"x.weight_packed",
               "I32",
               {16, words},
               Words(static_cast<size_t>(16 * words), 0x01234567)},
              {"x.weight_shape", "I64", {2}, Bytes<int64_t>({16, 64})},
              {"x.weight_scale", "F16", {16, 1}, Halves(16, 0.5f)}};
  }
};

TEST_F(CompressedTensorsTest, BytesAreNumbersOfTheirOutput) {
  EXPECT_EQ(Type(), DType::kQ8_C);
  for (const int64_t row : {0, 5, 15}) {
    const std::vector<float> values = Row(row);
    for (size_t k = 0; k < 64; ++k) {
      EXPECT_EQ(values[k], 0.1f * (static_cast<float>(3 * k) - 100 +
                                   static_cast<float>(row)))
          << row << " " << k;
    }
  }
}

TEST_F(CompressedTensorsTest, OneScaleServesTheTensor) {
  Group()["weights"]["strategy"] = "tensor";
  Part("x.weight_scale") = {"x.weight_scale", "F32", {1}, Bytes<float>({0.1f})};

  EXPECT_EQ(Type(), DType::kQ8_C);
  EXPECT_EQ(Row(15)[0], 0.1f * (15 - 100));
  Part("x.weight_scale").shape = {};  // of no dimension
  EXPECT_EQ(Row(15)[0], 0.1f * (15 - 100));
}

TEST_F(CompressedTensorsTest, BytesMayHaveGroups) {
  Group()["weights"]["strategy"] = "group";
  Group()["weights"]["group_size"] = 32;
  std::vector<uint16_t> scales(32, FloatToBFloat16(0.5f));
  scales[1] = FloatToBFloat16(2.0f);
  Part("x.weight_scale") = {"x.weight_scale", "BF16", {16, 2}, Bytes(scales)};

  EXPECT_EQ(Type(), DType::kQ8_0);
  EXPECT_EQ(Row(0)[31], 0.5f * (3 * 31 - 100));
  EXPECT_EQ(Row(0)[32], 2.0f * (3 * 32 - 100));
  EXPECT_EQ(Row(1)[32], 0.5f * (3 * 32 - 99));
}

TEST_F(CompressedTensorsTest, BytesMayHaveZeroPoints) {
  Part("x.weight_zero_point") = {
      "x.weight_zero_point", "I8", {16, 1}, Bytes(std::vector<int8_t>(16, 0))};
  EXPECT_EQ(Type(), DType::kQ8_C);
  Part("x.weight_zero_point").bytes = Bytes(std::vector<int8_t>(16, -3));
  Part("x.weight_scale") = {"x.weight_scale", "F16", {16, 1}, Halves(16, 0.5f)};

  EXPECT_EQ(Type(), DType::kQ8_Z);
  EXPECT_EQ(Row(2)[1], 0.5f * (3 - 100 + 2 + 3));
}

TEST_F(CompressedTensorsTest, WordsRunAlongTheInputsOfAnOutput) {
  UseWords(4);

  EXPECT_EQ(Type(), DType::kQ4_0);
  const std::vector<float> row = Row(9);
  for (size_t k = 0; k < 64; ++k) {
    EXPECT_EQ(row[k], 0.5f * (7 - static_cast<float>(k % 8) - 8)) << k;
  }
  UseWords(8);
  EXPECT_EQ(Type(), DType::kQ8_0);
  EXPECT_EQ(Row(3)[0], 0.5f * (0x67 - 128));
  EXPECT_EQ(Row(3)[3], 0.5f * (0x01 - 128));
}

TEST_F(CompressedTensorsTest, ZeroPointsInWordsRunAlongTheOutputs) {
  UseWords(4);
  Part("x.weight_zero_point") = {
      "x.weight_zero_point", "I32", {2, 1}, Words(2, 0x76543210)};

  EXPECT_EQ(Type(), DType::kQ4_Z);
  EXPECT_EQ(Row(8)[0], 0.5f * 7);
  EXPECT_EQ(Row(15)[0], 0);
}

TEST_F(CompressedTensorsTest, UnusedOrderIsNone) {
  UseWords(4);
  Part("x.weight_g_idx") = {
      "x.weight_g_idx", "I32", {64}, Bytes(std::vector<int32_t>(64, -1))};

  EXPECT_EQ(Row(0)[0], 0.5f * (7 - 8));
}

TEST_F(CompressedTensorsTest, OneScaleOfOddInputsIsKeptInFloat) {
  Part("x.weight").shape = {32, 32};
  Part("x.weight_scale").shape = {32, 1};
  Part("x.weight_scale").bytes = Bytes(std::vector(32, 0.1f));
  EXPECT_EQ(Type(), DType::kQ8_C);
  Part("x.weight").shape = {64, 16};
  Part("x.weight_scale").shape = {64, 1};
  Part("x.weight_scale").bytes = Bytes(std::vector(64, 0.1f));

  EXPECT_EQ(Type(), DType::kF32);
  EXPECT_THAT(OpenGood()->warnings(),
              ElementsAre(::testing::AllOf(HasSubstr("instead of 1024"),
                                           HasSubstr("16 inputs"))));
}

TEST_F(CompressedTensorsTest, ModulesThatWereLeftAreTensors) {
  Part("y.weight") = {"y.weight", "BF16", {2, 2}, std::string(8, '\0')};

  EXPECT_EQ(OpenGood()->Find("y.weight")->view.dtype, DType::kBF16);
}

TEST_F(CompressedTensorsTest, ContradictionsAreNamed) {
  const auto fails = [&](const std::vector<std::string>& words) {
    EXPECT_THAT(OpenStatus(), FailsWith(absl::StatusCode::kDataLoss, words));
  };
  const std::vector<SafetensorsEntry> good = parts_;
  Part("x.weight_scale").shape = {8, 2};
  fails({"x.weight_scale", "[8, 2]", "16 outputs"});
  parts_ = good;
  Part("x.weight_scale") = {
      "x.weight_scale", "F32", {16, 3}, Bytes(std::vector(48, 0.1f))};
  fails({"x.weight_scale", "[16, 3]", "64 inputs"});
  parts_ = good;
  Part("x.weight_scale").dtype = "I32";
  fails({"x.weight_scale", "is I32", "F32 is wanted"});
  parts_ = good;
  Part("x.weight").dtype = "F8_E4M3";
  fails({"x.weight", "is F8_E4M3", "I8 is wanted"});
  parts_ = good;
  Remove("x.weight_scale");
  fails({"x.weight_scale", "missing"});
  parts_ = good;
  Remove("x.weight");
  fails({"x.weight is missing"});
  parts_ = good;
  Part("x.weight_zero_point") = {
      "x.weight_zero_point", "I8", {16, 2}, std::string(32, '\0')};
  fails({"x.weight_zero_point", "[16, 2]", "wants [16, 1]"});
  UseWords(4);
  Part("x.weight_shape").bytes = Bytes<int64_t>({16, 65});
  fails({"x.weight_shape", "[16, 65]", "does not hold"});
  Part("x.weight_shape").bytes = Bytes<int64_t>({int64_t{1} << 62, 64});
  fails({"x.weight_shape", "does not hold"});
  Part("x.weight_shape").bytes = Bytes<int64_t>({16, -64});
  fails({"x.weight_shape", "[16, -64]"});
  Part("x.weight_shape").shape = {1, 2};
  fails({"x.weight_shape", "wants [2]"});
  UseWords(4);
  Remove("x.weight_packed");
  fails({"x.weight_packed is missing"});
}

TEST_F(CompressedTensorsTest, OnlyInt8ActivationsAreRoundedByTheRow) {
  Part("x.weight_scale") = {"x.weight_scale", "F16", {16, 1}, Halves(16, 0.5f)};
  EXPECT_EQ(Type(), DType::kQ8_C);
  Group()["input_activations"] = nullptr;
  EXPECT_EQ(Type(), DType::kQ8_0);
  EXPECT_EQ(Row(2)[1], 0.5f * (3 - 100 + 2));
  Part("x.weight_scale") = {
      "x.weight_scale", "F32", {16, 1}, Bytes(std::vector(16, 0.1f))};
  EXPECT_EQ(Type(), DType::kQ8_C);  // no F16 number
  EXPECT_THAT(OpenGood()->warnings(), ::testing::IsEmpty());
}

TEST_F(CompressedTensorsTest, GptqOfARowWithoutZeroPointsHasGroups) {
  config_ = {{"quant_method", "gptq"}, {"bits", 8}, {"group_size", -1}};
  parts_ = {{"x.qweight", "I32", {16, 16}, Words(256, 0xFF800100)},
            {"x.qzeros", "I32", {1, 4}, Words(4, 0x7F7F7F7F)},
            {"x.scales", "F16", {1, 16}, Halves(16, 0.5f)}};

  EXPECT_EQ(Type(), DType::kQ8_0);
  const std::vector<float> row = Row(5);
  EXPECT_THAT(std::vector(row.begin(), row.begin() + 4),
              ElementsAre(-0.5f * 128, -0.5f * 127, 0, 0.5f * 127));
}

struct RefusedGroup {
  std::string name;
  Json patch;  // of a good configuration
  std::vector<std::string> words;
};

class CompressedConfigTest
    : public CompressedTensorsTest,
      public ::testing::WithParamInterface<RefusedGroup> {};

TEST_P(CompressedConfigTest, WhatIsNotSupportedIsNamed) {
  ASSERT_TRUE(OpenStatus().ok()) << OpenStatus();
  config_.merge_patch(GetParam().patch);

  EXPECT_THAT(OpenStatus(),
              FailsWith(absl::StatusCode::kInvalidArgument, GetParam().words));
}

Json OfGroup(const Json& patch) {
  return {{"config_groups", {{"group_0", patch}}}};
}
Json OfWeights(const Json& patch) { return OfGroup({{"weights", patch}}); }
Json OfInputs(const Json& patch) {
  return OfGroup({{"input_activations", patch}});
}

INSTANTIATE_TEST_SUITE_P(
    All, CompressedConfigTest,
    ::testing::Values(
        RefusedGroup{"FloatFormat",
                     {{"format", "float-quantized"}},
                     {"quantization_config.format", "\"float-quantized\"",
                      "\"int-quantized\""}},
        RefusedGroup{
            "Marlin", {{"format", "marlin-24"}}, {"format", "\"marlin-24\""}},
        RefusedGroup{"NotCompressed",
                     {{"quantization_status", "frozen"}},
                     {"quantization_status", "\"frozen\"", "\"compressed\""}},
        RefusedGroup{"KeysAndValues",
                     {{"kv_cache_scheme", {{"num_bits", 8}}}},
                     {"kv_cache_scheme", "null"}},
        RefusedGroup{"Sparse",
                     {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}},
                     {"sparsity_config.format", "\"sparse-24-bitmask\""}},
        RefusedGroup{"GroupOfPresets",
                     {{"config_groups", {{"W8A8", {"Linear"}}}}},
                     {"config_groups.W8A8", "array", "an object"}},
        RefusedGroup{"GroupFormat",
                     OfGroup({{"format", "nvfp4-pack-quantized"}}),
                     {"config_groups.group_0.format", "nvfp4-pack-quantized"}},
        RefusedGroup{"NoWeights",
                     OfGroup({{"weights", nullptr}}),
                     {"config_groups.group_0.weights", "missing"}},
        RefusedGroup{"Outputs",
                     OfGroup({{"output_activations", {{"num_bits", 8}}}}),
                     {"group_0.output_activations", "null"}},
        RefusedGroup{"Fp8Weights",
                     OfWeights({{"type", "float"}}),
                     {"group_0.weights.type", "\"float\"", "\"int\""}},
        RefusedGroup{"ThreeBits",
                     OfWeights({{"num_bits", 3}}),
                     {"group_0.weights.num_bits", "is 3", "4, 8"}},
        RefusedGroup{"Blocks",
                     OfWeights({{"strategy", "block"}}),
                     {"group_0.weights.strategy", "\"block\"", "\"channel\""}},
        RefusedGroup{"DynamicWeights",
                     OfWeights({{"dynamic", true}}),
                     {"group_0.weights.dynamic", "is true"}},
        RefusedGroup{"StaticActivations",
                     OfInputs({{"dynamic", false}}),
                     {"group_0.input_activations.dynamic", "is false"}},
        RefusedGroup{"AsymmetricActivations",
                     OfInputs({{"symmetric", false}}),
                     {"group_0.input_activations.symmetric", "is false"}},
        RefusedGroup{"ActivationsOfTheTensor",
                     OfInputs({{"strategy", "tensor"}}),
                     {"input_activations.strategy", "\"tensor\"", "\"token\""}},
        RefusedGroup{"Fp8Activations",
                     OfInputs({{"type", "float"}}),
                     {"input_activations.type", "\"float\""}},
        RefusedGroup{"FourBitActivations",
                     OfInputs({{"num_bits", 4}}),
                     {"input_activations.num_bits", "is 4"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headrace
