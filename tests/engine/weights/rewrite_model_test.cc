// The converters of tests/testing: what they read back is what was written.
#include "tests/testing/rewrite_model.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/dtype.h"
#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/open_source.h"
#include "tests/testing/test_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

TEST(ReadModelTest, GivesBackTheModelThatWasWrittenAsGguf) {
  for (const bool has_lm_head : {true, false}) {
    const TempFolder folder;
    const TestModel model = BuildTinyModel({.has_lm_head = has_lm_head});
    WriteGgufModel(model, folder.Join("a.gguf"));

    const TestModel read = ReadModel(*OpenSource(folder.Join("a.gguf")));

    EXPECT_EQ(read.tensors.size(), model.tensors.size());
    for (const FloatTensor& tensor : model.tensors) {
      EXPECT_EQ(TensorOf(read, tensor.name).values, tensor.values)
          << tensor.name;
    }
    for (const char* key :
         {"hidden_size", "intermediate_size", "num_hidden_layers",
          "num_attention_heads", "num_key_value_heads", "head_dim",
          "max_position_embeddings", "tie_word_embeddings", "vocab_size"}) {
      EXPECT_EQ(read.config[key], model.config[key]) << key;
    }
    EXPECT_EQ(TokenizerJson(read.vocabulary), TokenizerJson(model.vocabulary));
  }
}

TEST(RewriteGgufTest, KeepsTheTensorsAndChangesTheKeys) {
  const TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("a.gguf"),
                 {.dtype = DType::kQ4_0});
  const auto before = OpenSource(folder.Join("a.gguf"));

  RewriteGguf(*before, folder.Join("b.gguf"),
              {{"tokenizer.ggml.add_bos_token", true}},
              {"tokenizer.chat_template"});

  const auto after = OpenSource(folder.Join("b.gguf"));
  EXPECT_EQ(HashWeights(*after), HashWeights(*before));
  nlohmann::ordered_json wanted = before->metadata();
  wanted["tokenizer.ggml.add_bos_token"] = true;
  wanted.erase("tokenizer.chat_template");
  EXPECT_EQ(after->metadata(), wanted);
}

TEST(ReadModelTest, RewritesStories260KInEveryFormat) {
  const std::string path = absl::StrCat(
      HEADRACE_SOURCE_DIR, "/../shared/data/stories260k/stories260K.bin");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;
  const TempFolder folder;
  const auto original = OpenSource(path);

  const TestModel model = ReadModel(*original);
  WriteGgufModel(model, folder.Join("a.gguf"));
  WriteHuggingFaceFolder(model, folder.Join("hf"));

  // Interleaved again, the GGUF holds the very tensors of the checkpoint.
  const auto gguf = OpenSource(folder.Join("a.gguf"));
  EXPECT_EQ(HashWeights(*gguf), HashWeights(*original));
  EXPECT_EQ(gguf->metadata()["tokenizer.ggml.tokens"][3], "<0x00>");
  EXPECT_EQ(OpenSource(folder.Join("hf"))->metadata()["config"]["vocab_size"],
            512);
}

}  // namespace
}  // namespace headrace
