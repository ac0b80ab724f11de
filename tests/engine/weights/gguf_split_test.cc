// Models cut into several GGUF files.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class GgufSplitTest : public ::testing::Test {
 protected:
  GgufSplitTest() {
    WriteGgufModel(model_, folder_.Join("whole.gguf"));
    WriteGgufModel(model_, Set("tiny"), {.num_shards = 2});
  }

  // The files of a set lie in a folder of its name.
  std::string Set(const std::string& name) const {
    return folder_.Join(name + "/" + name);
  }
  std::string Shard(const std::string& name, int number, int count = 2) const {
    return Set(name) + "-0000" + std::to_string(number) + "-of-0000" +
           std::to_string(count) + ".gguf";
  }
  static absl::Status Open(const std::string& path) {
    return OpenWeightSource(path).status();
  }
  void ExpectWholeModel(const std::string& path) const {
    const auto whole = OpenWeightSource(folder_.Join("whole.gguf"));
    const auto source = OpenWeightSource(path);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(HashWeights(**source), HashWeights(**whole));
    EXPECT_EQ((*source)->metadata()["general.architecture"], "llama");
  }

  TempFolder folder_;
  const TestModel model_ = BuildTinyModel();
};

// lemonade-sdk/lemonade#499, ngxson/wllama#135.
TEST_F(GgufSplitTest, LoadsTheWholeSetFromAnyShardAndFromTheFolder) {
  ExpectWholeModel(Shard("tiny", 1));
  ExpectWholeModel(Shard("tiny", 2));
  ExpectWholeModel(folder_.Join("tiny"));
}

// sgl-project/sglang#28209, vllm-project/vllm-metal#720: a cache of links to
// blobs named by their hash.
TEST_F(GgufSplitTest, FindsSistersByNameNotBehindLinks) {
  const std::string snapshot = folder_.Join("snapshots/abc/");
  fs::create_directories(snapshot);
  fs::create_directories(folder_.Join("blobs"));
  for (int i = 1; i <= 2; ++i) {
    const std::string blob = folder_.Join("blobs/" + std::to_string(i));
    fs::copy_file(Shard("tiny", i), blob);
    fs::create_symlink(
        blob, snapshot + fs::path(Shard("tiny", i)).filename().string());
  }

  ExpectWholeModel(snapshot);
  ExpectWholeModel(snapshot + "tiny-00001-of-00002.gguf");
  EXPECT_THAT(Open(folder_.Join("blobs/1")),
              IsDataLoss("one of 2 shards", "split.count"));
}

TEST_F(GgufSplitTest, NamesTheShardThatIsMissing) {
  for (const int missing : {1, 2}) {
    const std::string name = "lost" + std::to_string(missing);
    WriteGgufModel(model_, Set(name), {.num_shards = 2});
    fs::remove(Shard(name, missing));
    const std::string missing_name =
        fs::path(Shard(name, missing)).filename().string();
    EXPECT_THAT(Open(folder_.Join(name)), IsDataLoss(missing_name, "missing"));
    EXPECT_THAT(Open(Shard(name, 3 - missing)),
                IsDataLoss(missing_name, "missing"));
  }
}

TEST_F(GgufSplitTest, NamesTheShardThatIsTruncated) {
  const auto size = fs::file_size(Shard("tiny", 2));
  fs::resize_file(Shard("tiny", 2), size - 40);

  EXPECT_THAT(Open(folder_.Join("tiny")),
              IsDataLoss("tiny-00002-of-00002.gguf", "tensor",
                         "the file has " + std::to_string(size - 40)));
}

TEST_F(GgufSplitTest, RefusesAShardOfAnotherSet) {
  WriteGgufModel(model_, Set("three"), {.num_shards = 3});
  fs::copy_file(Shard("three", 2, 3), Shard("tiny", 2),
                fs::copy_options::overwrite_existing);

  EXPECT_THAT(Open(Shard("tiny", 1)),
              IsDataLoss("tiny-00002-of-00002.gguf", "split.count", "is 3"));
}

TEST_F(GgufSplitTest, RefusesShardsUnderEachOthersNames) {
  fs::rename(Shard("tiny", 1), folder_.Join("tmp"));
  fs::rename(Shard("tiny", 2), Shard("tiny", 1));
  fs::rename(folder_.Join("tmp"), Shard("tiny", 2));

  EXPECT_THAT(Open(folder_.Join("tiny")),
              IsDataLoss("tiny-00001-of-00002.gguf", "split.no", "is 1"));
}

TEST_F(GgufSplitTest, RefusesAWholeModelUnderAShardsName) {
  fs::create_directories(folder_.Join("fake"));
  fs::copy_file(folder_.Join("whole.gguf"), Shard("fake", 1));

  EXPECT_THAT(Open(Shard("fake", 1)),
              IsDataLoss("fake-00001-of-00002.gguf", "split.count", "missing"));
}

TEST_F(GgufSplitTest, AcceptsASetOfOne) {
  fs::create_directories(folder_.Join("one"));
  fs::copy_file(folder_.Join("whole.gguf"), Shard("one", 1, 1));

  ExpectWholeModel(Shard("one", 1, 1));
}

TEST_F(GgufSplitTest, RefusesATensorInTwoShards) {
  GgufWriter first;
  GgufWriter second;
  for (GgufWriter* writer : {&first, &second}) {
    writer->Set("split.no", static_cast<uint16_t>(writer == &second));
    writer->Set("split.count", uint16_t{2});
    writer->Set("split.tensors.count", int32_t{2});
    writer->AddTensor("same", DType::kF32, {1}, std::vector<float>{1});
  }
  WriteFile(Shard("twin", 1), first.Serialize());
  WriteFile(Shard("twin", 2), second.Serialize());

  EXPECT_THAT(Open(Shard("twin", 1)),
              IsDataLoss("\"same\"", "twin-00001", "twin-00002", "unique"));
}

TEST_F(GgufSplitTest, RefusesASetThatLacksTensors) {
  WriteGgufModel(model_, Set("short"), {.num_shards = 2});
  GgufWriter empty;
  empty.Set("split.no", uint16_t{1});
  empty.Set("split.count", uint16_t{2});
  WriteFile(Shard("short", 2), empty.Serialize());

  EXPECT_THAT(
      Open(Shard("short", 1)),
      IsDataLoss("split.tensors.count", std::to_string(model_.tensors.size())));
}

TEST_F(GgufSplitTest, TellsTwoSetsInOneFolderApart) {
  for (int i = 1; i <= 2; ++i) {
    fs::copy_file(
        Shard("tiny", i),
        folder_.Join("tiny/other-0000" + std::to_string(i) + "-of-00002.gguf"));
  }

  EXPECT_THAT(Open(folder_.Join("tiny")),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"other-00001-of-00002.gguf, "
                                                 "tiny-00001-of-00002.gguf"}));
  ExpectWholeModel(Shard("tiny", 2));
}

}  // namespace
}  // namespace headrace
