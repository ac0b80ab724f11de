#include "client/cli/direction_file.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/files.h"
#include "tests/testing/gguf_writer.h"

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DirectionFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_.Join(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // As repeng's export_gguf writes it, layers in any order.
  static GgufWriter ControlVector() {
    GgufWriter writer;
    writer.Set("general.architecture", std::string("controlvector"));
    writer.Set("controlvector.model_hint", std::string("llama"));
    writer.Set("controlvector.layer_count", uint32_t{2});
    writer.AddTensor("direction.10", DType::kF32, {2},
                     std::vector<float>{3, 4});
    writer.AddTensor("direction.9", DType::kF32, {2}, std::vector<float>{1, 2});
    return writer;
  }
  // W_dec [3, 2], as SAELens writes it.
  std::string Autoencoder() const {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const std::string header =
        nlohmann::json{
            {"W_dec",
             {{"dtype", "F32"}, {"shape", {3, 2}}, {"data_offsets", {0, 24}}}}}
            .dump();
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(values.data()), 24);
    return Write("sae_weights.safetensors", bytes);
  }

  TempFolder folder_;
};

TEST_F(DirectionFileTest, AControlVectorHasADirectionForEachLayer) {
  const auto directions =
      ReadDirections(Write("happy.gguf", ControlVector().Serialize()), {});

  ASSERT_TRUE(directions.ok()) << directions.status();
  ASSERT_EQ(directions->size(), 2u);
  EXPECT_EQ((*directions)[0].layer, 9);
  EXPECT_THAT((*directions)[0].values, ElementsAre(1, 2));
  EXPECT_EQ((*directions)[1].layer, 10);
  EXPECT_THAT((*directions)[1].values, ElementsAre(3, 4));
}

TEST_F(DirectionFileTest, OtherTensorsInAControlVectorAreRefused) {
  GgufWriter writer = ControlVector();
  writer.AddTensor("bias.3", DType::kF32, {2}, std::vector<float>{3, 4});

  const auto directions =
      ReadDirections(Write("odd.gguf", writer.Serialize()), {});
  EXPECT_EQ(directions.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(directions.status().message()),
              HasSubstr("bias.3 is no direction.N"));
}

TEST_F(DirectionFileTest, AnAutoencodersFeaturesAreRowsOfItsDecoder) {
  const std::string path = Autoencoder();
  const auto directions = ReadDirections(path, {2, 0});

  ASSERT_TRUE(directions.ok()) << directions.status();
  EXPECT_EQ((*directions)[0].feature, 2);
  EXPECT_THAT((*directions)[0].values, ElementsAre(5, 6));
  EXPECT_THAT((*directions)[1].values, ElementsAre(1, 2));
  EXPECT_THAT(std::string(ReadDirections(path, {}).status().message()),
              HasSubstr("--features is missing: W_dec has 3 of them"));
  EXPECT_THAT(std::string(ReadDirections(path, {3}).status().message()),
              HasSubstr("--features must be from 0 to 2; has 3"));
}

TEST_F(DirectionFileTest, AModelIsNoDirection) {
  GgufWriter writer;
  writer.Set("general.architecture", std::string("llama"));
  writer.AddTensor("direction.1", DType::kF32, {2}, std::vector<float>{1, 2});

  EXPECT_THAT(
      std::string(ReadDirections(Write("m.gguf", writer.Serialize()), {})
                      .status()
                      .message()),
      HasSubstr("holds no directions"));
}

}  // namespace
}  // namespace headrace::cli
