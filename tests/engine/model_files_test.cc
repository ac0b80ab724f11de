// The same model through every file format, and files that contradict
// themselves: equal logits, or a refusal that says why.
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/rewrite_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

EngineOptions Exact(const std::string& path) {
  return {.model_path = path, .numerics = Numerics::kExact, .num_threads = 1};
}

// Logits of the last of a few tokens.
std::vector<float> LastLogits(Engine& engine) {
  TestSequence test;
  test.prompt = {75, 104, 111};
  test.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
  test.capture.rows.prompt.last = true;
  RunTogether(engine, {&test});
  EXPECT_TRUE(test.status.ok()) << test.status;
  return test.rows.at(HookPoint::kLogits, -1, 2);
}

std::vector<float> LogitsOf(const std::string& path) {
  const auto engine = MakeEngine(Exact(path));
  return engine == nullptr ? std::vector<float>() : LastLogits(*engine);
}

std::string ErrorOf(const std::string& path) {
  const auto engine = Engine::Create(Exact(path));
  return engine.ok() ? "" : std::string(engine.status().message());
}

class ModelFilesTest : public ::testing::Test {
 protected:
  std::string Gguf(const TestModel& model, const std::string& name,
                   const GgufModelOptions& options = {}) const {
    return WriteGgufModel(model, folder_.Join(name), options).front();
  }
  std::string HuggingFace(const TestModel& model, const std::string& name,
                          const FolderOptions& options = {}) const {
    WriteHuggingFaceFolder(model, folder_.Join(name), options);
    return folder_.Join(name);
  }
  TempFolder folder_;
  TestModel tiny_ = BuildTinyModel();
};

// TransformerLensOrg/TransformerLens#104: f16 and bf16 gave other numbers.
TEST_F(ModelFilesTest, EveryTypeWithTheSameNumbersGivesTheSameBits) {
  const std::vector<float> gguf = LogitsOf(Gguf(tiny_, "f32.gguf"));
  const std::vector<float> folder = LogitsOf(HuggingFace(tiny_, "f32"));
  ASSERT_EQ(gguf.size(), 260u);

  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
    EXPECT_EQ(LogitsOf(Gguf(tiny_, "other.gguf", {.dtype = dtype})), gguf);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(LogitsOf(HuggingFace(tiny_, "hf", {.dtype = dtype})), folder);
  }
  // GGUF pairs neighbouring lanes of q and k, Hugging Face halves: the sums of
  // the scores run in another order.
  for (size_t i = 0; i < gguf.size(); ++i) {
    EXPECT_NEAR(gguf[i], folder[i], 1e-5);
  }
}

TEST_F(ModelFilesTest, ShardsGiveTheWholeModel) {
  EXPECT_EQ(LogitsOf(HuggingFace(tiny_, "sharded", {.num_shards = 3})),
            LogitsOf(HuggingFace(tiny_, "whole")));

  const std::vector<float> gguf = LogitsOf(Gguf(tiny_, "f32.gguf"));
  const std::vector<std::string> shards =
      WriteGgufModel(tiny_, folder_.Join("split"), {.num_shards = 2});
  for (const std::string& shard : shards) EXPECT_EQ(LogitsOf(shard), gguf);
}

TEST_F(ModelFilesTest, AStrayFileBesideAnIndexIsLeftOut) {
  const std::string path =
      HuggingFace(tiny_, "stray", {.num_shards = 2, .stray_model_file = true});

  const auto engine = MakeEngine(Exact(path));

  EXPECT_EQ(LastLogits(*engine), LogitsOf(HuggingFace(tiny_, "whole")));
  EXPECT_THAT(engine->model().warnings,
              ::testing::Contains(HasSubstr("model.safetensors")));
}

TEST_F(ModelFilesTest, AMissingShardIsNamed) {
  const std::string path = HuggingFace(tiny_, "missing", {.num_shards = 2});
  std::filesystem::remove(path + "/model-00002-of-00002.safetensors");

  EXPECT_THAT(ErrorOf(path), HasSubstr("model-00002-of-00002.safetensors"));
}

TEST_F(ModelFilesTest, AStoredHeadIsUsedWhateverTheConfigSays) {
  const std::vector<float> base = LogitsOf(HuggingFace(
      tiny_, "untied", {.config_set = {{"tie_word_embeddings", false}}}));
  const auto engine = MakeEngine(
      Exact(HuggingFace(tiny_, "contradiction",
                        {.config_set = {{"tie_word_embeddings", true}}})));

  EXPECT_EQ(LastLogits(*engine), base);
  EXPECT_THAT(engine->model().warnings,
              ::testing::Contains(HasSubstr("tie_word_embeddings")));
}

TEST_F(ModelFilesTest, AnUntiedHeadThatIsMissingIsNamed) {
  const TestModel tied = BuildTinyModel({.has_lm_head = false});

  EXPECT_THAT(
      ErrorOf(HuggingFace(tied, "no_head",
                          {.config_set = {{"tie_word_embeddings", false}}})),
      HasSubstr("lm_head.weight"));
}

TEST_F(ModelFilesTest, InfiniteWeightsEndTheRequestNamingThePosition) {
  PutInfInFfn(tiny_);
  const auto engine = MakeEngine(Exact(Gguf(tiny_, "inf.gguf")));
  TestSequence test;
  test.prompt = {75, 104, 111};
  test.max_tokens = 2;

  RunTogether(*engine, {&test});

  EXPECT_THAT(std::string(test.status.message()),
              AllOf(HasSubstr("position 2"), HasSubstr("not finite")));
}

TEST_F(ModelFilesTest, ABadEmbeddingRowBreaksOnlyRequestsThatUseIt) {
  PutNanInEmbeddingRow(tiny_, 65);
  const auto engine = MakeEngine(Exact(Gguf(tiny_, "nan.gguf")));
  const auto make = [](std::vector<int32_t> prompt) {
    TestSequence test;
    test.prompt = std::move(prompt);
    test.max_tokens = 4;
    test.logprobs.enabled = true;
    return test;
  };
  TestSequence alone = make({75, 104, 111});
  RunTogether(*engine, {&alone});
  TestSequence bad = make({75, 65, 111});
  TestSequence beside = make({75, 104, 111});

  RunTogether(*engine, {&bad, &beside});

  EXPECT_FALSE(bad.status.ok());
  EXPECT_TRUE(beside.status.ok());
  EXPECT_EQ(beside.generated, alone.generated);
  for (size_t i = 0; i < alone.sampled.size(); ++i) {
    EXPECT_EQ(beside.sampled[i].token.logprob, alone.sampled[i].token.logprob);
  }
  // The blocks that held the bad rows are used again.
  TestSequence after = make({75, 104, 111});
  RunTogether(*engine, {&after});
  EXPECT_EQ(after.generated, alone.generated);
}

TEST_F(ModelFilesTest, RowsPaddedPastTheVocabularyAreNeverSampled) {
  PadVocabulary(tiny_);
  const auto engine = MakeEngine(Exact(Gguf(tiny_, "padded.gguf")));
  EXPECT_EQ(engine->model().config.vocab_size, 264);
  EXPECT_EQ(engine->tokenizer()->vocab_size(), 260);
  for (const double temperature : {0.0, 1.0}) {
    TestSequence test;
    test.prompt = {75, 104, 111};
    test.max_tokens = 20;
    test.sampling.temperature = temperature;
    test.logprobs = {.top_n = 5, .enabled = true};

    RunTogether(*engine, {&test});

    ASSERT_EQ(test.generated.size(), 20u);
    for (const int32_t token : test.generated) EXPECT_LT(token, 260);
  }
}

TEST_F(ModelFilesTest, HeadCountsPerLayerAreReadWhenTheyAgree) {
  const std::vector<float> base = LogitsOf(Gguf(tiny_, "f32.gguf"));
  const auto counts = [](std::vector<int32_t> values) {
    return GgufModelOptions{
        .set = {{"llama.attention.head_count", GgufValue(std::move(values))}}};
  };

  EXPECT_EQ(LogitsOf(Gguf(tiny_, "a.gguf", counts({4, 4}))), base);
  EXPECT_THAT(
      ErrorOf(Gguf(tiny_, "b.gguf", counts({4}))),
      AllOf(HasSubstr("llama.attention.head_count"), HasSubstr("2 layers")));
  EXPECT_THAT(ErrorOf(Gguf(tiny_, "c.gguf", counts({-2, -2}))),
              AllOf(HasSubstr("llama.attention.head_count"), HasSubstr("-2")));
  EXPECT_THAT(
      ErrorOf(Gguf(tiny_, "d.gguf", {.remove = {"llama.context_length"}})),
      HasSubstr("llama.context_length is missing"));
}

// Mistral is the Llama family with a window over the keys.
TEST_F(ModelFilesTest, MistralIsLlamaWithAWindow) {
  const TestModel mistral = BuildTinyModel({.model_type = "mistral"});
  const auto logits = [&](const char* name, nlohmann::ordered_json window,
                          std::vector<int32_t> prompt) {
    const auto engine = MakeEngine(Exact(
        HuggingFace(mistral, name,
                    {.config_set = {{"sliding_window", std::move(window)}}})));
    TestSequence test;
    test.prompt = std::move(prompt);
    test.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
    test.capture.rows.prompt.last = true;
    RunTogether(*engine, {&test});
    return test.rows.at(HookPoint::kLogits, -1,
                        static_cast<int64_t>(test.prompt.size()) - 1);
  };
  const std::vector<int32_t> prompt = {75, 104, 111};
  const std::vector<float> llama = LogitsOf(HuggingFace(tiny_, "llama"));

  EXPECT_EQ(logits("open", nullptr, prompt), llama);
  EXPECT_EQ(logits("wide", 3, prompt), llama);
  EXPECT_NE(logits("narrow", 2, prompt), llama);
  // Who sees only itself does not see what came before.
  EXPECT_EQ(logits("alone", 1, prompt), logits("alone", 1, {111}));
}

// transformers' own default, so that the file means here what it means there.
TEST_F(ModelFilesTest, MistralsWindowIsFourThousandUnlessItSaysNone) {
  const auto window = [&](const TestModel& model, FolderOptions options) {
    const auto engine = MakeEngine(Exact(HuggingFace(model, "m", options)));
    return engine->model().config.sliding_window;
  };
  const TestModel mistral = BuildTinyModel({.model_type = "mistral"});

  EXPECT_EQ(window(mistral, {.config_remove = {"sliding_window"}}), 4096);
  EXPECT_EQ(window(mistral, {.config_set = {{"sliding_window", nullptr}}}),
            std::nullopt);
  EXPECT_EQ(window(tiny_, {.config_remove = {"sliding_window"}}), std::nullopt);
}

// Metadata of another legal width crashes loaders (lucasjinreal/Crane#127).
TEST_F(ModelFilesTest, NumbersOfAnyWidthAreRead) {
  const std::vector<float> base = LogitsOf(Gguf(tiny_, "f32.gguf"));

  EXPECT_EQ(LogitsOf(Gguf(
                tiny_, "wide.gguf",
                {.set = {{"llama.block_count", GgufValue(uint64_t{2})},
                         {"llama.embedding_length", GgufValue(int64_t{32})},
                         {"llama.context_length", GgufValue(uint16_t{256})},
                         {"llama.attention.head_count", GgufValue(uint64_t{4})},
                         {"llama.rope.freq_base", GgufValue(10000.0)}}})),
            base);
  EXPECT_THAT(
      ErrorOf(
          Gguf(tiny_, "text.gguf",
               {.set = {{"llama.block_count", GgufValue(std::string("2"))}}})),
      HasSubstr("llama.block_count"));
}

TEST_F(ModelFilesTest, EveryWayToWriteOneRopeScalingGivesOneHash) {
  const auto hash = [&](nlohmann::ordered_json set) {
    const auto engine = MakeEngine(
        Exact(HuggingFace(tiny_, "rope", {.config_set = std::move(set)})));
    return engine == nullptr ? 0 : engine->model().rope->hash;
  };
  const uint64_t linear =
      hash({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}});

  EXPECT_EQ(
      hash({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}),
      linear);
  EXPECT_EQ(hash({{"rope_parameters",
                   {{"rope_type", "linear"},
                    {"rope_theta", 10000.0},
                    {"factor", 2}}}}),
            linear);
  EXPECT_NE(hash({{"rope_scaling", nullptr}}), linear);
}

TEST_F(ModelFilesTest, WrongRopeScalingIsRefusedByKey) {
  const auto error = [&](nlohmann::ordered_json scaling) {
    return ErrorOf(HuggingFace(
        tiny_, "rope", {.config_set = {{"rope_scaling", std::move(scaling)}}}));
  };
  EXPECT_THAT(error({{"type", "linear"}}), HasSubstr("factor"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", "2"}}),
              HasSubstr("factor"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", true}}),
              HasSubstr("factor"));
  EXPECT_THAT(error({{"type", "linear"}, {"factor", 0.5}}),
              HasSubstr("factor"));
  EXPECT_THAT(error({{"type", "yarn"}, {"rope_type", "linear"}, {"factor", 2}}),
              HasSubstr("type"));
}

TEST_F(ModelFilesTest, StoriesGiveTheSameThroughEveryFormat) {
  if (StoriesPath().empty()) GTEST_SKIP() << "stories260K is not here";
  const auto source = OpenWeightSource(StoriesPath());
  ASSERT_TRUE(source.ok()) << source.status();
  const TestModel model = ReadModel(**source);
  const auto logits = [](const std::string& path) {
    const auto engine = MakeEngine(Exact(path));
    TestSequence test;
    test.prompt = {1, 403, 407, 261, 378, 432, 383, 286};
    test.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
    test.capture.rows.prompt.last = true;
    RunTogether(*engine, {&test});
    return test.rows.at(HookPoint::kLogits, -1, 7);
  };
  const std::vector<float> base = logits(StoriesPath());

  // The same float32 numbers; only the pairing of the rotation differs, which
  // permutes the sums of the scores.
  const std::vector<float> gguf = logits(Gguf(model, "stories.gguf"));
  const std::vector<float> folder = logits(HuggingFace(model, "stories"));
  const std::vector<float> half =
      logits(Gguf(model, "stories16.gguf", {.dtype = DType::kF16}));
  for (size_t i = 0; i < base.size(); ++i) {
    EXPECT_NEAR(gguf[i], base[i], 2e-5);
    EXPECT_NEAR(folder[i], base[i], 2e-5);
    // Eleven bits of each weight.
    EXPECT_NEAR(half[i], base[i], 0.1);
  }
}

}  // namespace
}  // namespace headrace
