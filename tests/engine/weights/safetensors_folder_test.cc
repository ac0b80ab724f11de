// Hugging Face's folder layout: shards, index, stray files and companions.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/block_formats.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/open_source.h"
#include "tests/testing/safetensors_writer.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kShard1[] = "model-00001-of-00002.safetensors";
constexpr char kShard2[] = "model-00002-of-00002.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

class SafetensorsFolderTest : public ::testing::Test {
 protected:
  SafetensorsFolderTest() {
    WriteHuggingFaceFolder(model_, base_.path());
    WriteHuggingFaceFolder(model_, folder_.path(), {.num_shards = 2});
  }

  std::unique_ptr<WeightSource> Open() { return OpenSource(folder_.path()); }
  absl::Status OpenStatus() {
    return OpenWeightSource(folder_.path()).status();
  }
  std::string BaseHash() { return HashWeights(*OpenSource(base_.path())); }
  nlohmann::ordered_json Index() {
    return nlohmann::ordered_json::parse(ReadFile(folder_.Join(kIndex)));
  }
  void WriteIndex(const nlohmann::ordered_json& index) {
    WriteFile(folder_.Join(kIndex), index.dump());
  }

  const TestModel model_ = BuildTinyModel();
  TempFolder base_;    // one file
  TempFolder folder_;  // two shards
};

TEST_F(SafetensorsFolderTest, ShardsGiveTheSameModelAsOneFile) {
  EXPECT_EQ(HashWeights(*Open()), BaseHash());
  EXPECT_THAT(Open()->warnings(), IsEmpty());
}

TEST_F(SafetensorsFolderTest, OpensTheSetFromAShardAndFromTheIndex) {
  EXPECT_EQ(HashWeights(*OpenSource(folder_.Join(kShard2))), BaseHash());
  EXPECT_EQ(HashWeights(*OpenSource(folder_.Join(kIndex))), BaseHash());
}

TEST_F(SafetensorsFolderTest, RefusesAShardWithoutItsIndex) {
  fs::remove(folder_.Join(kIndex));

  EXPECT_THAT(OpenWeightSource(folder_.Join(kShard1)).status(),
              IsDataLoss(kShard1, "one shard of 2", kIndex));
}

// sgl-project/sglang#32279, Blaizzy/mlx-vlm#1464.
TEST_F(SafetensorsFolderTest, NamesAMissingShardWithTheBytesThatAreMissed) {
  const auto total = Index()["metadata"]["total_size"].get<int64_t>();
  const auto present = fs::file_size(folder_.Join(kShard1));
  fs::remove(folder_.Join(kShard2));

  EXPECT_THAT(OpenStatus(),
              IsDataLoss(kShard2, "missing", kIndex, std::to_string(total),
                         std::to_string(present)));
}

// osaurus-ai/vmlx-swift#217: a truncated shard read as zeros.
TEST_F(SafetensorsFolderTest, NamesATruncatedShardWithBothSizes) {
  const auto size = fs::file_size(folder_.Join(kShard2));
  fs::resize_file(folder_.Join(kShard2), size - 100);

  EXPECT_THAT(OpenStatus(), IsDataLoss(kShard2, std::to_string(size),
                                       std::to_string(size - 100)));
}

// Blaizzy/mlx-vlm#1827.
TEST_F(SafetensorsFolderTest, TheIndexWinsOverAStrayFileWithAWarning) {
  WriteHuggingFaceFolder(model_, folder_.path(),
                         {.num_shards = 2, .stray_model_file = true});

  EXPECT_EQ(HashWeights(*Open()), BaseHash());
  EXPECT_THAT(Open()->warnings(),
              Contains(AllOf(HasSubstr("model.safetensors"),
                             HasSubstr("not named"), HasSubstr(kIndex))));
}

TEST_F(SafetensorsFolderTest, OpensAStrayFileAloneWhenItIsAskedFor) {
  WriteHuggingFaceFolder(model_, folder_.path(),
                         {.num_shards = 2, .stray_model_file = true});

  const auto source = OpenSource(folder_.Join("model.safetensors"));

  EXPECT_NE(HashWeights(*source), BaseHash());
  EXPECT_THAT(source->warnings(), Contains(HasSubstr("as asked")));
}

TEST_F(SafetensorsFolderTest, RefusesAShardThatLacksAMappedTensor) {
  auto index = Index();
  index["weight_map"]["model.extra.weight"] = kShard2;
  WriteIndex(index);

  EXPECT_THAT(OpenStatus(),
              IsDataLoss(kShard2, "lacks 1", "\"model.extra.weight\""));
}

TEST_F(SafetensorsFolderTest, RefusesATensorInAnotherShardThanTheIndexSays) {
  auto index = Index();
  index["weight_map"]["model.embed_tokens.weight"] = kShard2;
  WriteIndex(index);

  EXPECT_THAT(OpenStatus(), IsDataLoss(kShard1, "\"model.embed_tokens.weight\"",
                                       kIndex, kShard2));
}

TEST_F(SafetensorsFolderTest, WarnsOfTensorsThatTheIndexDoesNotName) {
  auto index = Index();
  index["weight_map"].erase("lm_head.weight");
  WriteIndex(index);

  const auto source = Open();

  EXPECT_EQ(source->Find("lm_head.weight"), nullptr);
  EXPECT_THAT(source->warnings(),
              Contains(AllOf(HasSubstr(kShard2), HasSubstr(kIndex),
                             HasSubstr("\"lm_head.weight\""))));
}

TEST_F(SafetensorsFolderTest, RefusesPathsInTheIndex) {
  for (const char* path :
       {"../model.safetensors", "/etc/passwd", "a/b", "a\\b", "", ".", ".."}) {
    auto index = Index();
    index["weight_map"]["lm_head.weight"] = path;
    WriteIndex(index);
    EXPECT_THAT(OpenStatus(),
                IsDataLoss(kIndex, "\"lm_head.weight\"", "file name"))
        << path;
  }
}

TEST_F(SafetensorsFolderTest, RefusesAnIndexWithoutAMap) {
  for (const char* text : {"[]", "{}", R"({"weight_map":[]})",
                           R"({"weight_map":{}})", R"({"weight_map":"x"})"}) {
    WriteFile(folder_.Join(kIndex), text);
    EXPECT_THAT(OpenStatus(), IsDataLoss(kIndex, "weight_map")) << text;
  }
  WriteFile(folder_.Join(kIndex), R"({"weight_map":{"t":1}})");
  EXPECT_THAT(OpenStatus(), IsDataLoss(kIndex, "\"t\"", "number"));
  WriteFile(folder_.Join(kIndex), "{");
  EXPECT_THAT(OpenStatus(), IsDataLoss(kIndex, "not JSON"));
}

TEST_F(SafetensorsFolderTest, LoadsWithoutIntegerBuffersAndSaysSo) {
  const std::vector<SafetensorsEntry> entries = {
      {"w", "F32", {2}, std::string(8, '\0')},
      {"rotary_emb.position_ids", "I64", {1}, std::string(8, '\0')},
      {"attn.bias", "BOOL", {3}, std::string(3, '\0')}};
  const TempFolder folder;
  WriteFile(folder.Join("model.safetensors"), SerializeSafetensors(entries));

  const auto source = OpenSource(folder.path());

  EXPECT_EQ(source->tensors().size(), 1u);
  EXPECT_THAT(source->warnings(),
              Contains(AllOf(HasSubstr("2 tensors"), HasSubstr("BOOL I64"),
                             HasSubstr("\"rotary_emb.position_ids\""))));
}

TEST_F(SafetensorsFolderTest, RealignsTensorsThatStandAtOddAddresses) {
  // A header of odd length, then a float.
  const std::string header =
      R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const float value = 1.5f;
  for (const size_t padding : {0u, 1u, 2u, 3u}) {
    const TempFolder folder;
    WriteFile(folder.Join("model.safetensors"),
              SafetensorsFile(header + std::string(padding, ' '),
                              {reinterpret_cast<const char*>(&value), 4}));

    const auto source = OpenSource(folder.path());

    const TensorView& view = source->Find("t")->view;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % alignof(float), 0u);
    EXPECT_EQ(*reinterpret_cast<const float*>(view.data), 1.5f);
  }
}

TEST_F(SafetensorsFolderTest, CarriesTheJsonFilesBesideTheWeights) {
  WriteFile(base_.Join("chat_template.jinja"), "{{ 'é' }}");

  const auto source = OpenSource(base_.path());
  EXPECT_EQ(source->metadata()["config"]["hidden_size"], 32);
  EXPECT_EQ(source->metadata()["generation_config"]["eos_token_id"], 2);
  EXPECT_EQ(source->metadata()["tokenizer"]["model"]["vocab"]["H"], 75);
  EXPECT_EQ(source->metadata()["tokenizer_config"]["bos_token"],
            "<|endoftext|>");
  EXPECT_EQ(source->metadata()["chat_template"], "{{ 'é' }}");
}

TEST_F(SafetensorsFolderTest, LeavesOutTheFilesThatAreNotThere) {
  fs::remove(base_.Join("tokenizer.json"));
  fs::remove(base_.Join("generation_config.json"));

  const auto source = OpenSource(base_.path());

  EXPECT_FALSE(source->metadata().contains("tokenizer"));
  EXPECT_FALSE(source->metadata().contains("generation_config"));
  EXPECT_FALSE(source->metadata().contains("chat_template"));
}

TEST_F(SafetensorsFolderTest, NamesACompanionThatIsBroken) {
  WriteFile(base_.Join("config.json"), "{\"a\": nope}");
  EXPECT_THAT(OpenWeightSource(base_.path()).status(),
              IsDataLoss("config.json", "offset", "not JSON"));

  WriteFile(base_.Join("config.json"), "{}");
  WriteFile(base_.Join("chat_template.jinja"), "\xFF");
  EXPECT_THAT(OpenWeightSource(base_.path()).status(),
              IsDataLoss("chat_template.jinja", "UTF-8"));
}

}  // namespace
}  // namespace headrace
