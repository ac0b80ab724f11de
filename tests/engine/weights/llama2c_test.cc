// Checkpoints of llama2.c: the fixed order, the exact size, the vocabulary.
#include <cstdint>
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
#include "tests/engine/weights/byte_builder.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"

namespace headrace {
namespace {

// dim 8, hidden_dim 12, 2 layers, 2 heads, 1 kv head, 6 tokens, 5 positions.
struct Header {
  int32_t dim = 8;
  int32_t hidden_dim = 12;
  int32_t n_layers = 2;
  int32_t n_heads = 2;
  int32_t n_kv_heads = 1;
  int32_t vocab_size = 6;
  int32_t seq_len = 5;
};

constexpr int kFloats = 6 * 8 +                       // token_embd
                        2 * (2 * 8 +                  // norms
                             2 * 8 * 8 + 2 * 4 * 8 +  // q, output; k, v
                             3 * 12 * 8) +            // gate, down, up
                        8 +
                        5 * 4;  // last norm, unused

// The value of a float is its index in the file.
std::string Checkpoint(const Header& h, int floats = kFloats) {
  ByteBuilder file;
  file.Add(h.dim).Add(h.hidden_dim).Add(h.n_layers).Add(h.n_heads);
  file.Add(h.n_kv_heads).Add(h.vocab_size).Add(h.seq_len);
  for (int i = 0; i < floats; ++i) file.Add(static_cast<float>(i));
  return file.str();
}

std::string Vocabulary(const std::vector<std::string>& tokens) {
  ByteBuilder file;
  file.Add<int32_t>(10);
  for (const std::string& token : tokens) {
    file.Add(-0.5f * static_cast<float>(token.size()))
        .Add(static_cast<int32_t>(token.size()))
        .Raw(token);
  }
  return file.str();
}

class Llama2cTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<WeightSource>> Open(const std::string& bytes) {
    WriteFile(folder_.Join("model.bin"), bytes);
    return OpenWeightSource(folder_.Join("model.bin"));
  }
  static float First(const WeightSource& source, const std::string& name) {
    const StoredTensor* tensor = source.Find(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << "no tensor " << name;
      return -1;
    }
    return *reinterpret_cast<const float*>(tensor->view.data);
  }

  TempFolder folder_;
};

TEST_F(Llama2cTest, GivesEveryTensorItsPlaceInTheFixedOrder) {
  const auto source = Open(Checkpoint({}));

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->format(), WeightFormat::kLlama2c);
  EXPECT_EQ((*source)->format_name(), "llama2.c");
  EXPECT_EQ((*source)->tensors().size(), 20u);
  EXPECT_EQ(First(**source, "token_embd.weight"), 0);
  EXPECT_EQ(First(**source, "blk.0.attn_norm.weight"), 48);
  EXPECT_EQ(First(**source, "blk.1.attn_norm.weight"), 56);
  EXPECT_EQ(First(**source, "blk.0.attn_q.weight"), 64);
  EXPECT_EQ(First(**source, "blk.1.attn_q.weight"), 128);
  EXPECT_EQ(First(**source, "blk.0.attn_k.weight"), 192);
  EXPECT_EQ(First(**source, "blk.0.attn_v.weight"), 256);
  EXPECT_EQ(First(**source, "blk.0.attn_output.weight"), 320);
  EXPECT_EQ(First(**source, "blk.0.ffn_norm.weight"), 448);
  EXPECT_EQ(First(**source, "blk.0.ffn_gate.weight"), 464);
  EXPECT_EQ(First(**source, "blk.0.ffn_down.weight"), 656);
  EXPECT_EQ(First(**source, "blk.1.ffn_up.weight"), 944);
  EXPECT_EQ(First(**source, "output_norm.weight"), 1040);
  EXPECT_EQ((*source)->Find("blk.0.attn_k.weight")->view.shape, (Shape{4, 8}));
  EXPECT_EQ((*source)->Find("blk.0.ffn_down.weight")->view.shape,
            (Shape{8, 12}));
}

TEST_F(Llama2cTest, CarriesItsHeader) {
  const auto source = Open(Checkpoint({}));

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->metadata().dump(),
            R"({"dim":8,"hidden_dim":12,"n_layers":2,"n_heads":2,)"
            R"("n_kv_heads":1,"vocab_size":6,"seq_len":5,)"
            R"("shared_classifier":true})");
}

TEST_F(Llama2cTest, HasAHeadOfItsOwnWhenTheVocabularyIsNegative) {
  const auto source = Open(Checkpoint({.vocab_size = -6}, kFloats + 48));

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->metadata()["vocab_size"], 6);
  EXPECT_EQ((*source)->metadata()["shared_classifier"], false);
  EXPECT_EQ(First(**source, "output.weight"), kFloats);
}

TEST_F(Llama2cTest, IsFoundInAFolderByItsContent) {
  WriteFile(folder_.Join("stories.bin"), Checkpoint({}));
  WriteFile(folder_.Join("tokenizer.bin"),
            Vocabulary({"a", "b", "c", "d", "e", "f"}));

  const auto source = OpenWeightSource(folder_.path());

  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE((*source)->metadata().contains("tokenizer"));
}

TEST_F(Llama2cTest, RefusesAFileThatIsNotExactlyAsLong) {
  for (const int floats : {kFloats - 1, kFloats + 1, 0}) {
    EXPECT_THAT(Open(Checkpoint({}, floats)).status(),
                IsDataLoss("model.bin", std::to_string(28 + 4 * floats),
                           std::to_string(28 + 4 * kFloats)));
  }
  EXPECT_THAT(Open("too short").status(), IsDataLoss("model.bin", "9 bytes"));
}

TEST_F(Llama2cTest, RefusesHeadersWithoutSense) {
  const Header headers[] = {
      {.dim = 0},        {.dim = -8},     {.hidden_dim = 0}, {.n_layers = 0},
      {.n_heads = 0},    {.n_heads = -2}, {.n_kv_heads = 0}, {.seq_len = -1},
      {.vocab_size = 0}, {.n_heads = 3},  // dim is no multiple
      {.n_heads = 8},                     // heads of one lane
      {.n_kv_heads = 3},                  // no whole groups
  };
  for (const Header& header : headers) {
    EXPECT_THAT(Open(Checkpoint(header)).status(),
                IsDataLoss("model.bin", "not a llama2.c header"));
  }
}

TEST_F(Llama2cTest, RefusesSizesThatWrap) {
  const int32_t big = 1 << 30;
  EXPECT_THAT(Open(Checkpoint({.dim = big,
                               .hidden_dim = big,
                               .n_layers = big,
                               .n_heads = 1,
                               .n_kv_heads = 1}))
                  .status(),
              IsDataLoss("model.bin", "more than 2^64"));
}

TEST_F(Llama2cTest, NamesTheVersionThatItCannotRead) {
  EXPECT_THAT(Open(ByteBuilder()
                       .Add<uint32_t>(0x616b3432)
                       .Add<int32_t>(2)
                       .Raw(std::string(300, '\0'))
                       .str())
                  .status(),
              IsDataLoss("model.bin", "version 2", "version 0"));
}

TEST_F(Llama2cTest, ReadsTheVocabularyBesideItAsLatin1) {
  WriteFile(folder_.Join("tok6.bin"),
            Vocabulary({"a", "", "\xE2\x96\x81", "<0x0A>", "\xFF", "é"}));
  WriteFile(folder_.Join("tokenizer.bin"), "not looked at");

  const auto source = Open(Checkpoint({}));

  ASSERT_TRUE(source.ok()) << source.status();
  const auto& tokenizer = (*source)->metadata()["tokenizer"];
  EXPECT_EQ(tokenizer["tokens"][2], "\u00E2\u0096\u0081");
  EXPECT_EQ(tokenizer["tokens"][4], "\u00FF");
  EXPECT_EQ(tokenizer["scores"].get<std::vector<float>>(),
            (std::vector<float>{-0.5, 0, -1.5, -3, -0.5, -1}));
}

TEST_F(Llama2cTest, RefusesAVocabularyThatIsCutOrTooLong) {
  const std::string whole = Vocabulary({"a", "b", "c", "d", "e", "f"});
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(folder_.Join("tokenizer.bin"), whole.substr(0, size));
    EXPECT_THAT(Open(Checkpoint({})).status(),
                IsDataLoss("tokenizer.bin", std::to_string(size) + " bytes"));
  }
  WriteFile(folder_.Join("tokenizer.bin"), whole + "x");
  EXPECT_THAT(Open(Checkpoint({})).status(),
              IsDataLoss("tokenizer.bin", "6 tokens"));
}

TEST_F(Llama2cTest, RefusesATokenOfNegativeLength) {
  ByteBuilder vocabulary;
  vocabulary.Add<int32_t>(1).Add(0.0f).Add<int32_t>(-1);
  vocabulary.Raw(std::string(100, '\0'));
  WriteFile(folder_.Join("tok6.bin"), vocabulary.str());

  EXPECT_THAT(Open(Checkpoint({})).status(),
              IsDataLoss("tok6.bin", "offset 4", "token 0 of 6"));
}

}  // namespace
}  // namespace headrace
