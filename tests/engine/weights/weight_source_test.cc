#include "engine/weights/weight_source.h"

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/hugging_face_folder.h"
#include "tests/testing/test_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<WeightSource> OpenOrDie(const std::string& path) {
  absl::StatusOr<std::unique_ptr<WeightSource>> source = OpenWeightSource(path);
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

absl::Status OpenStatus(const std::string& path) {
  return OpenWeightSource(path).status();
}

std::vector<float> ValuesOf(const WeightSource& source,
                            const std::string& name) {
  const StoredTensor* tensor = source.Find(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  std::vector<float> values(NumElements(tensor->view.shape));
  DequantizeRow(tensor->view.dtype, tensor->view.data, values);
  return values;
}

TEST(WeightSourceTest, ReadsEveryTensorOfAGgufFileInOrderOfName) {
  TempFolder folder;
  const TestModel model = BuildTinyModel();
  WriteGgufModel(model, folder.Join("tiny.gguf"));

  const auto source = OpenOrDie(folder.Join("tiny.gguf"));

  EXPECT_EQ(source->format(), WeightFormat::kGguf);
  EXPECT_EQ(source->format_name(), "GGUF v3");
  EXPECT_THAT(source->warnings(), IsEmpty());
  ASSERT_EQ(source->tensors().size(), model.tensors.size());
  for (size_t i = 1; i < source->tensors().size(); ++i) {
    EXPECT_LT(source->tensors()[i - 1].name, source->tensors()[i].name);
  }
  for (const char* same : {"model.layers.1.mlp.down_proj.weight",
                           "model.norm.weight", "lm_head.weight"}) {
    const FloatTensor& wanted = TensorOf(model, same);
    const std::string name = GgufTensorName(same);
    EXPECT_EQ(source->Find(name)->view.shape, wanted.shape) << name;
    EXPECT_EQ(ValuesOf(*source, name), wanted.values) << name;
  }
}

TEST(WeightSourceTest, ReadsEveryTensorOfASafetensorsFolder) {
  TempFolder folder;
  const TestModel model = BuildTinyModel();
  WriteHuggingFaceFolder(model, folder.path());

  const auto source = OpenOrDie(folder.path());

  EXPECT_EQ(source->format(), WeightFormat::kSafetensors);
  EXPECT_EQ(source->format_name(), "safetensors");
  EXPECT_THAT(source->warnings(), IsEmpty());
  ASSERT_EQ(source->tensors().size(), model.tensors.size());
  for (const FloatTensor& wanted : model.tensors) {
    EXPECT_EQ(source->Find(wanted.name)->view.shape, wanted.shape);
    EXPECT_EQ(ValuesOf(*source, wanted.name), wanted.values) << wanted.name;
  }
}

TEST(WeightSourceTest, FindsNothingUnderAnUnknownName) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("tiny.gguf"));

  const auto source = OpenOrDie(folder.Join("tiny.gguf"));

  EXPECT_EQ(source->Find(""), nullptr);
  EXPECT_EQ(source->Find("output.weigh"), nullptr);
  EXPECT_EQ(source->Find("zzz"), nullptr);
}

TEST(WeightSourceTest, SaysWhereATensorIs) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("tiny.gguf"));

  const auto source = OpenOrDie(folder.Join("tiny.gguf"));

  EXPECT_THAT(source->Find("token_embd.weight")->location,
              HasSubstr("tiny.gguf: offset "));
}

// The tiny model's values are exact in all four.
class LosslessDtypeTest : public ::testing::TestWithParam<DType> {};

TEST_P(LosslessDtypeTest, HoldsTheSameNumbersInGguf) {
  TempFolder folder;
  const TestModel model = BuildTinyModel();
  WriteGgufModel(model, folder.Join("tiny.gguf"), {.dtype = GetParam()});

  const auto source = OpenOrDie(folder.Join("tiny.gguf"));

  const std::string name = "model.layers.0.self_attn.v_proj.weight";
  EXPECT_EQ(source->Find("blk.0.attn_v.weight")->view.dtype, GetParam());
  EXPECT_EQ(ValuesOf(*source, "blk.0.attn_v.weight"),
            TensorOf(model, name).values);
}

INSTANTIATE_TEST_SUITE_P(All, LosslessDtypeTest,
                         ::testing::Values(DType::kF32, DType::kF16,
                                           DType::kBF16, DType::kQ8_0),
                         [](const auto& info) {
                           return std::string(LayoutOf(info.param).name);
                         });

TEST(WeightSourceTest, TellsFormatsByContentNotByName) {
  TempFolder folder;
  const auto paths = WriteGgufModel(BuildTinyModel(), folder.Join("a.gguf"));
  std::filesystem::rename(paths[0], folder.Join("blob"));

  EXPECT_EQ(OpenOrDie(folder.Join("blob"))->format(), WeightFormat::kGguf);
}

TEST(WeightSourceTest, OpensTheOnlyGgufOfAFolder) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("tiny.gguf"));
  WriteFile(folder.Join("README.md"), "a model");

  EXPECT_EQ(OpenOrDie(folder.path())->format(), WeightFormat::kGguf);
}

TEST(WeightSourceTest, OpensTheOnlyModelOfAFolderWithoutTellingNames) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("sha256-1234"));
  WriteFile(folder.Join("README"), "a model");

  EXPECT_EQ(OpenOrDie(folder.path())->format(), WeightFormat::kGguf);
}

TEST(WeightSourceTest, RefusesAFolderOfSeveralModels) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("a.gguf"));
  WriteGgufModel(BuildTinyModel(), folder.Join("b.gguf"));

  EXPECT_THAT(OpenStatus(folder.path()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"a.gguf, b.gguf"}));
}

TEST(WeightSourceTest, NamesAPathThatIsNotThere) {
  EXPECT_THAT(OpenStatus("/nonexistent/model.gguf"),
              FailsWith(absl::StatusCode::kNotFound,
                        std::vector<std::string>{"/nonexistent/model.gguf"}));
}

TEST(WeightSourceTest, RefusesAFolderWithoutAModel) {
  TempFolder folder;
  WriteFile(folder.Join("config.json"), "{}");

  EXPECT_THAT(OpenStatus(folder.path()),
              FailsWith(absl::StatusCode::kNotFound,
                        std::vector<std::string>{folder.path()}));
}

TEST(WeightSourceTest, RefusesAFileOfNoKnownFormat) {
  TempFolder folder;
  WriteFile(folder.Join("model.pt"), "PK\x03\x04 and more");
  WriteFile(folder.Join("empty"), "");

  EXPECT_THAT(OpenStatus(folder.Join("model.pt")),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"model.pt", "PK\\x03\\x04"}));
  EXPECT_THAT(OpenStatus(folder.Join("empty")),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"empty"}));
}

TEST(WeightSourceTest, SpeaksOfTheFormatThatTheNamePromises) {
  TempFolder folder;
  for (const char* name : {"a.gguf", "b.safetensors", "c.bin"}) {
    WriteFile(folder.Join(name), "xyz");
    EXPECT_THAT(OpenStatus(folder.Join(name)), IsDataLoss(name));
  }
}

TEST(WeightSourceTest, TensorsOutliveTheMetadata) {
  TempFolder folder;
  WriteGgufModel(BuildTinyModel(), folder.Join("tiny.gguf"));
  const auto source = OpenOrDie(folder.Join("tiny.gguf"));
  ASSERT_FALSE(source->metadata().empty());
  const std::string hash = HashWeights(*source);

  source->DropMetadata();

  EXPECT_TRUE(source->metadata().empty());
  EXPECT_EQ(HashWeights(*source), hash);
}

TEST(HashWeightsTest, IsTheSameForTheSameTensorsAndNoOthers) {
  TempFolder folder;
  TestModel model = BuildTinyModel();
  WriteGgufModel(model, folder.Join("a.gguf"));
  WriteGgufModel(model, folder.Join("b.gguf"),
                 {.set = {{"general.name", "another"}}});
  WriteGgufModel(model, folder.Join("c.gguf"), {.dtype = DType::kF16});
  SetElement(model, "model.norm.weight", 3, 2.0f);
  WriteGgufModel(model, folder.Join("d.gguf"));

  const std::string hash = HashWeights(*OpenOrDie(folder.Join("a.gguf")));

  EXPECT_THAT(hash, ::testing::MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(hash, HashWeights(*OpenOrDie(folder.Join("b.gguf"))));
  EXPECT_NE(hash, HashWeights(*OpenOrDie(folder.Join("c.gguf"))));
  EXPECT_NE(hash, HashWeights(*OpenOrDie(folder.Join("d.gguf"))));
}

TEST(HashWeightsTest, IsTheSha256OfNameDtypeShapeAndBytes) {
  TempFolder folder;
  GgufWriter writer;
  writer.AddTensor("b", DType::kF32, {1, 2}, std::vector<float>{1, 2});
  writer.AddTensor("a", DType::kF16, {1}, std::vector<float>{1});
  WriteFile(folder.Join("a.gguf"), writer.Serialize());

  // Python: sha256(b"a\nF16\n[1]\n" + pack("<e", 1) +
  //                b"b\nF32\n[1, 2]\n" + pack("<ff", 1, 2)).hexdigest()
  EXPECT_EQ(HashWeights(*OpenOrDie(folder.Join("a.gguf"))),
            "aa163b53fef3ce05bf0f168a5f2d83c2d386b0283bfebfb8fb60c593b6e47ff3");
}

TEST(HashWeightsTest, DoesNotDependOnHowTheModelIsCutIntoFiles) {
  TempFolder folder;
  const TestModel model = BuildTinyModel();
  WriteHuggingFaceFolder(model, folder.Join("one"));
  WriteHuggingFaceFolder(model, folder.Join("three"), {.num_shards = 3});

  EXPECT_EQ(HashWeights(*OpenOrDie(folder.Join("one"))),
            HashWeights(*OpenOrDie(folder.Join("three"))));
}

}  // namespace
}  // namespace headrace
