// Weights packed before give the same bits; what is wrong with the folder or
// its files costs time, never an answer.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "engine/base/cache_folder.h"
#include "engine/base/thread_team.h"
#include "engine/known_weights.h"
#include "engine/packed_cache.h"
#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

TestModel WideTinyModel(uint64_t seed = 1) {
  return BuildTinyModel({.hidden_size = 256,
                         .intermediate_size = 512,
                         .num_attention_heads = 4,
                         .num_key_value_heads = 2,
                         .head_dim = 64,
                         .seed = seed});
}

std::vector<float> LogitsOf(const EngineOptions& options) {
  const auto engine = MakeEngine(options);
  TestSequence test;
  for (int32_t i = 0; i < 20; ++i) test.prompt.push_back(3 + i * 17 % 250);
  test.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
  test.capture.rows.prompt.all = true;
  RunTogether(*engine, {&test});
  EXPECT_TRUE(test.status.ok()) << test.status;
  std::vector<float> logits;
  for (int64_t row = 0; row < 20; ++row) {
    const auto& values = test.rows.at(HookPoint::kLogits, -1, row);
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return logits;
}

class PackedCacheTest : public ::testing::Test {
 protected:
  EngineOptions Options(Numerics numerics = Numerics::kFast) const {
    return {.model_path = path_,
            .numerics = numerics,
            .num_threads = 2,
            .packed_cache_dir = cache_};
  }
  EngineOptions WithoutCache(Numerics numerics = Numerics::kFast) const {
    EngineOptions options = Options(numerics);
    options.packed_cache_dir.clear();
    return options;
  }
  void WriteModel(DType dtype, uint64_t seed = 1) {
    path_ = WriteGgufModel(WideTinyModel(seed), folder_.Join("model.gguf"),
                           {.dtype = dtype})
                .front();
  }
  std::vector<fs::path> Files(const std::string& suffix) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(cache_)) {
      if (entry.path().string().ends_with(suffix)) {
        files.push_back(entry.path());
      }
    }
    return files;
  }
  // The only one.
  std::string Image() const {
    const std::vector<fs::path> files = Files(".packed");
    EXPECT_EQ(files.size(), 1u);
    return files.front().string();
  }
  static ino_t InodeOf(const std::string& path) {
    struct stat state = {};
    EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
    return state.st_ino;
  }

  TempFolder folder_;
  std::string path_;
  std::string cache_ = folder_.Join("cache/of/weights");
};

class PackedTypesTest : public PackedCacheTest,
                        public ::testing::WithParamInterface<DType> {};

TEST_P(PackedTypesTest, GiveTheSameBits) {
  WriteModel(GetParam());
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const std::vector<float> expected = LogitsOf(WithoutCache(numerics));
    EXPECT_EQ(LogitsOf(Options(numerics)), expected);  // exact: is packed
    const ino_t image = InodeOf(Image());
    EXPECT_EQ(LogitsOf(Options(numerics)), expected);  // is mapped
    EXPECT_EQ(InodeOf(Image()), image) << "was packed again";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, PackedTypesTest,
    ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0,
                      DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                      DType::kQ4_K, DType::kQ5_K, DType::kQ6_K),
    [](const auto& info) { return std::string(LayoutOf(info.param).name); });

TEST_F(PackedCacheTest, IsReadAndNotOnlyWritten) {
  WriteModel(DType::kQ8_0);
  const std::vector<float> expected = LogitsOf(Options());
  // The weights of another model, kept under this one's key.
  const ModelInfo info = MakeEngine(Options())->model();
  const PackedImageKey key = {.weights_sha256 = info.weights_sha256,
                              .isa = info.isa};
  WriteModel(DType::kQ8_0, 2);
  const PackedImageKey other = {
      .weights_sha256 = MakeEngine(Options())->model().weights_sha256,
      .isa = info.isa};
  ThreadTeam team(1);
  const PackedCache cache{CacheFolder(cache_)};
  const std::vector<PackedRun> runs = cache.Load(team, other);
  ASSERT_FALSE(runs.empty());
  cache.Save(team, key, runs);

  WriteModel(DType::kQ8_0);
  EXPECT_EQ(LogitsOf(WithoutCache()), expected);
  EXPECT_NE(LogitsOf(Options()), expected);
}

TEST_F(PackedCacheTest, DamagedFilesAreMadeAgain) {
  WriteModel(DType::kQ4_1);
  const std::vector<float> expected = LogitsOf(Options());
  const std::string name = Image();
  const std::string good = ReadFile(name);
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  for (const std::string& bad :
       {flipped, good.substr(0, good.size() / 2), std::string(),
        std::string("not ours"), good + good}) {
    WriteFile(name, bad);
    EXPECT_EQ(LogitsOf(Options()), expected);
    EXPECT_TRUE(ReadFile(name) == good) << "after " << bad.size() << " bytes";
  }
}

TEST_F(PackedCacheTest, AFolderThatCannotBeWrittenIsNoError) {
  WriteModel(DType::kQ8_0);
  const std::vector<float> expected = LogitsOf(WithoutCache());
  WriteFile(folder_.Join("file"), "in the way");
  cache_ = folder_.Join("file/cache");
  EXPECT_EQ(LogitsOf(Options()), expected);
  cache_ = "/proc/headrace";
  EXPECT_EQ(LogitsOf(Options()), expected);
}

TEST_F(PackedCacheTest, AFullDiskLeavesNothingBehind) {
  WriteModel(DType::kQ8_0);
  const std::vector<float> expected = LogitsOf(WithoutCache());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit little = before;
  little.rlim_cur = 100000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::vector<float> logits = LogitsOf(Options());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(logits, expected);
  EXPECT_TRUE(Files("packed").empty());
  EXPECT_TRUE(Files("unfinished").empty());
}

TEST_F(PackedCacheTest, ProcessesThatStartTogetherAllSucceed) {
  WriteModel(DType::kQ8_0);
  const std::vector<float> expected = LogitsOf(WithoutCache());
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool same = true;
      for (int k = 0; k < 3; ++k) same &= LogitsOf(Options()) == expected;
      std::_Exit(same ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
  }
  EXPECT_TRUE(Files("unfinished").empty());
  const ino_t image = InodeOf(Image());
  EXPECT_EQ(LogitsOf(Options()), expected);
  EXPECT_EQ(InodeOf(Image()), image);
}

TEST_F(PackedCacheTest, KeepsTheModelsUsedLast) {
  std::string first;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    WriteModel(DType::kQ8_0, seed);
    LogitsOf(Options());
    if (seed == 1) first = Image();
    // Used again and again.
    CacheFolder(cache_).Touch(fs::path(first).filename().string());
  }
  EXPECT_EQ(Files(".packed").size(), 8u);
  EXPECT_TRUE(fs::exists(first));
}

TEST_F(PackedCacheTest, RemovesWhatAnInterruptedWriterLeft) {
  WriteModel(DType::kQ8_0);
  const std::string old = cache_ + "/a.packed.x1y2z3.unfinished";
  const std::string fresh = cache_ + "/b.packed.x1y2z3.unfinished";
  WriteFile(old, "half");
  WriteFile(fresh, "half");
  fs::last_write_time(old,
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  LogitsOf(Options());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "its writer may be at work";
}

TEST_F(PackedCacheTest, RemovesItAlsoWhereNothingCanBeWritten) {
  const std::string old = cache_ + "/a.packed.x1y2z3.unfinished";
  WriteFile(old, "what fills the disk");
  fs::last_write_time(old,
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_FALSE(CacheFolder(cache_).Write("missing/b.packed", {}).ok());
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(PackedCacheTest, WhatIsNoFileTakesNoPlace) {
  for (int i = 0; i < 9; ++i) {
    fs::create_directories(cache_ + "/" + std::to_string(i) + ".packed/x");
  }
  WriteFile(cache_ + "/a.packed", "a");
  fs::last_write_time(cache_ + "/a.packed",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  CacheFolder(cache_).Prune(".packed", 8);
  EXPECT_TRUE(fs::exists(cache_ + "/a.packed"));
}

class KnownWeightsTest : public PackedCacheTest {
 protected:
  std::string Hash(absl::Duration later = absl::Hours(1)) const {
    const auto source = OpenWeightSource(path_);
    EXPECT_TRUE(source.ok()) << source.status();
    return HashKnownWeights(**source, CacheFolder(cache_), absl::Now() + later);
  }
  std::string TrueHash() const {
    return HashWeights(**OpenWeightSource(path_));
  }
};

TEST_F(KnownWeightsTest, AreRecalledWithoutBeingRead) {
  WriteModel(DType::kQ8_0);
  const std::string hash = Hash();
  EXPECT_EQ(hash, TrueHash());
  const std::string memo = Files(".weights").front().string();
  const ino_t inode = InodeOf(memo);
  EXPECT_EQ(Hash(), hash);
  EXPECT_EQ(InodeOf(memo), inode);
}

TEST_F(KnownWeightsTest, AreReadAgainWhenTheFileChanged) {
  WriteModel(DType::kQ8_0);
  const std::string before = Hash();
  const auto time = fs::last_write_time(path_);
  WriteModel(DType::kQ8_0, 2);
  fs::last_write_time(path_, time);  // as some tools do
  EXPECT_NE(Hash(), before);
  EXPECT_EQ(Hash(), TrueHash());
}

TEST_F(KnownWeightsTest, AreNotRememberedWhileTheyMayStillChange) {
  WriteModel(DType::kQ8_0);
  EXPECT_EQ(Hash(absl::ZeroDuration()), TrueHash());
  EXPECT_FALSE(fs::exists(cache_));
}

TEST_F(KnownWeightsTest, ADamagedMemoryIsNotBelieved) {
  WriteModel(DType::kQ8_0);
  const std::string hash = Hash();
  const std::string memo = Files(".weights").front().string();
  std::string text = ReadFile(memo);
  char& digit = text[text.find(hash)];
  digit = digit == '0' ? '1' : '0';
  WriteFile(memo, text);
  EXPECT_EQ(Hash(), hash);
  WriteFile(memo, "");
  EXPECT_EQ(Hash(), hash);
}

}  // namespace
}  // namespace headrace
