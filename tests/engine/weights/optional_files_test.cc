// Real files, where they are there: the default model, vocabularies and the
// smallest trained checkpoint. Their absence skips, it does not fail.
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/tensor/dtype.h"
#include "engine/weights/weight_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/open_source.h"

namespace headrace {
namespace {

constexpr char kDefaultModel[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::string DefaultModelPath() {
  if (const char* path = std::getenv("HEADRACE_MODEL")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr
                               ? std::string(cache)
                               : absl::StrCat(home ? home : "", "/.cache");
  return absl::StrCat(base, "/headrace/models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::string SharedPath(std::string_view name) {
  return absl::StrCat(HEADRACE_SOURCE_DIR, "/../shared/data/",
                      std::string(name));
}

// Of this process: other programs on the machine do not count.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class DefaultModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DefaultModelPath())) {
      GTEST_SKIP() << "no model at " << DefaultModelPath();
    }
  }
};

TEST_F(DefaultModelTest, OpensFast) {
  const double start = CpuSeconds();

  const auto source = OpenSource(DefaultModelPath());

  // 49152 tokens and 48900 merges: 25 milliseconds, unless something is
  // quadratic. Wide, for sanitizers.
  EXPECT_LT(CpuSeconds() - start, 1.5);
}

TEST_F(DefaultModelTest, HoldsWhatItsCardSays) {
  if (!DefaultModelPath().ends_with(kDefaultModel)) {
    GTEST_SKIP() << DefaultModelPath() << " is another model";
  }
  const auto source = OpenSource(DefaultModelPath());

  EXPECT_EQ(source->format_name(), "GGUF v3");
  EXPECT_EQ(source->metadata()["general.architecture"], "llama");
  EXPECT_EQ(source->metadata()["llama.block_count"], 30);
  EXPECT_EQ(source->metadata()["tokenizer.ggml.tokens"].size(), 49152);
  std::map<DType, int> dtypes;
  for (const StoredTensor& tensor : source->tensors()) {
    ++dtypes[tensor.view.dtype];
  }
  // 30 layers of 7 matrices and 2 norms, the last norm and the embedding.
  EXPECT_THAT(dtypes,
              ::testing::UnorderedElementsAre(std::pair{DType::kQ4_1, 210},
                                              std::pair{DType::kF32, 61},
                                              std::pair{DType::kQ8_0, 1}));
}

TEST_F(DefaultModelTest, HashesInUnderAFewSeconds) {
  const auto source = OpenSource(DefaultModelPath());
  const double start = CpuSeconds();

  EXPECT_EQ(HashWeights(*source).size(), 64u);

  // 98 MB at 0.4 GB/s or more, without SHA instructions.
  EXPECT_LT(CpuSeconds() - start, 4);
}

TEST(OptionalVocabularyTest, ReadsFilesWithoutTensors) {
  int read = 0;
  for (const std::string name : {"gpt-2", "phi-3", "starcoder"}) {
    const std::string path =
        SharedPath(absl::StrCat("vocab/ggml-vocab-", name, ".gguf"));
    if (!std::filesystem::exists(path)) continue;
    const auto source = OpenSource(path);
    ASSERT_NE(source, nullptr);
    EXPECT_EQ(source->tensors().size(), 0u);
    EXPECT_GT(source->metadata()["tokenizer.ggml.tokens"].size(), 30000u);
    ++read;
  }
  if (read == 0) GTEST_SKIP() << "no vocabularies at " << SharedPath("vocab");
}

TEST(OptionalCheckpointTest, ReadsStories260K) {
  const std::string path = SharedPath("stories260k/stories260K.bin");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;

  const auto source = OpenSource(path);

  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->format(), WeightFormat::kLlama2c);
  EXPECT_EQ(source->metadata()["dim"], 64);
  EXPECT_EQ(source->metadata()["vocab_size"], 512);
  EXPECT_EQ(source->metadata()["tokenizer"]["tokens"].size(), 512u);
  // 5 layers of 9, the embedding and the last norm; tied.
  EXPECT_EQ(source->tensors().size(), 47u);
  EXPECT_EQ(source->Find("output.weight"), nullptr);
  EXPECT_EQ(source->Find("blk.4.attn_k.weight")->view.shape, (Shape{32, 64}));
}

}  // namespace
}  // namespace headrace
