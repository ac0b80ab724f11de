// GGUF's tensor infos and where they point: every lie is refused.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/tensor/dtype.h"
#include "engine/weights/gguf_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/byte_builder.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/gguf_writer.h"

namespace headrace {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;
constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

// One tensor info; what a test does not say is legal.
struct Info {
  std::string name = "t";
  std::vector<uint64_t> dims = {8};
  uint32_t type = kF32;
  uint64_t offset = 0;
};

std::string FileOf(const std::vector<Info>& infos, size_t data_bytes) {
  ByteBuilder file = GgufHeader(infos.size(), 0);
  for (const Info& info : infos) {
    file.String(info.name).Add(static_cast<uint32_t>(info.dims.size()));
    for (const uint64_t dim : info.dims) file.Add(dim);
    file.Add(info.type).Add(info.offset);
  }
  return file.PadTo(32).Raw(std::string(data_bytes, '\0')).str();
}

absl::Status Parse(std::string_view bytes) {
  return ParseGguf(AsBytes(bytes), "bad.gguf").status();
}
absl::Status Parse(const std::vector<Info>& infos, size_t data_bytes = 4096) {
  return Parse(FileOf(infos, data_bytes));
}

TEST(GgufTensorTest, ReversesDimensionsIntoRowMajorOrder) {
  const std::string file = FileOf({{.dims = {8, 2, 3}}}, 192);

  const auto contents = ParseGguf(AsBytes(file), "a.gguf");

  ASSERT_TRUE(contents.ok()) << contents.status();
  const GgufTensorInfo& tensor = contents->tensors[0];
  EXPECT_EQ(tensor.shape, (Shape{3, 2, 8}));
  EXPECT_EQ(tensor.bytes, 192);
  EXPECT_EQ(tensor.offset + 192, file.size());
}

TEST(GgufTensorTest, CountsBlocksNotElements) {
  const std::string file = FileOf({{.dims = {64, 3}, .type = kQ8_0}}, 6 * 34);

  const auto contents = ParseGguf(AsBytes(file), "a.gguf");

  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->tensors[0].dtype, DType::kQ8_0);
  EXPECT_EQ(contents->tensors[0].bytes, 6 * 34);
}

// CVE-2024-25664 and its family: n_dims above 4.
TEST(GgufTensorTest, RefusesMoreThanFourDimensions) {
  EXPECT_THAT(Parse({{.dims = {1, 1, 1, 1, 1}}}),
              IsDataLoss("bad.gguf", "tensor \"t\"", "5 dimensions"));
  ByteBuilder file = GgufHeader(1, 0);
  file.String("t").Add(0xFFFFFFFFu).Raw(std::string(64, '\1'));
  EXPECT_THAT(Parse(file.str()), IsDataLoss("4294967295 dimensions"));
}

TEST(GgufTensorTest, RefusesNoDimensions) {
  EXPECT_THAT(Parse({{.dims = {}}}),
              IsDataLoss("tensor \"t\"", "0 dimensions"));
}

// llama.cpp#24263: a dimension of 0 divides by zero.
TEST(GgufTensorTest, RefusesADimensionOfZero) {
  EXPECT_THAT(Parse({{.dims = {8, 0, 2}}}),
              IsDataLoss("tensor \"t\"", "dimension 1 = 0"));
}

TEST(GgufTensorTest, RefusesADimensionBeyondSixtyThreeBits) {
  EXPECT_THAT(
      Parse({{.dims = {8, kMax}}}),
      IsDataLoss("tensor \"t\"", "dimension 1 = " + std::to_string(kMax)));
}

// CVE-2024-21802: the product of the dimensions wraps.
TEST(GgufTensorTest, RefusesAProductOfDimensionsThatWraps) {
  const uint64_t big = uint64_t{1} << 32;
  EXPECT_THAT(Parse({{.dims = {big, big}}}),
              IsDataLoss("tensor \"t\"", "more than 2^64"));
  // 2^62 floats wrap to 0 bytes.
  EXPECT_THAT(Parse({{.dims = {big, uint64_t{1} << 30}}}),
              IsDataLoss("tensor \"t\"", "more than 2^64"));
}

TEST(GgufTensorTest, RefusesATensorLargerThanTheFile) {
  EXPECT_THAT(Parse({{.dims = {1u << 20}}}),
              IsDataLoss("tensor \"t\"", "4194304 bytes"));
}

TEST(GgufTensorTest, RefusesRowsThatAreNoWholeBlocks) {
  EXPECT_THAT(Parse({{.dims = {48, 2}, .type = kQ8_0}}),
              IsDataLoss("tensor \"t\"", "rows of 48", "Q8_0", "32"));
}

TEST(GgufTensorTest, RefusesRowsThatAreNoWholeSuperBlocks) {
  for (const auto& [type, name] :
       {std::pair{12u, "Q4_K"}, std::pair{13u, "Q5_K"},
        std::pair{14u, "Q6_K"}}) {
    EXPECT_THAT(Parse({{.dims = {576, 2}, .type = type}}),
                IsDataLoss("tensor \"t\"", "rows of 576", name, "256"));
  }
}

TEST(GgufTensorTest, NamesTensorAndTypeThatIsNotSupported) {
  for (const auto& [type, name] :
       {std::pair{10u, "Q2_K"}, std::pair{11u, "Q3_K"},
        std::pair{20u, "IQ4_NL"}, std::pair{24u, "I8"},
        std::pair{39u, "MXFP4"}}) {
    EXPECT_THAT(Parse({{.name = "blk.0.attn_q.weight", .type = type}}),
                FailsWith(absl::StatusCode::kUnimplemented,
                          std::vector<std::string>{
                              "bad.gguf", "tensor \"blk.0.attn_q.weight\"",
                              name, "Q4_1", "Q6_K"}));
  }
}

TEST(GgufTensorTest, RefusesTypesThatDoNotExist) {
  for (const uint32_t type : {4u, 5u, 31u, 43u, 0xFFFFFFFFu}) {
    EXPECT_THAT(
        Parse({{.type = type}}),
        IsDataLoss("tensor \"t\"", "unknown type " + std::to_string(type)));
  }
}

TEST(GgufTensorTest, RefusesANameThatIsEmptyOrTooLongOrNotUtf8) {
  EXPECT_THAT(Parse({{.name = ""}}), IsDataLoss("tensor 1 of 1", "empty"));
  EXPECT_THAT(Parse({{.name = std::string(65, 'x')}}),
              IsDataLoss("tensor 1 of 1", "65 bytes", "limit is 64"));
  EXPECT_THAT(Parse({{.name = "\xFF"}}),
              IsDataLoss("tensor 1 of 1", "not UTF-8"));
}

// CVE-2026-7482: offset + size past the end reads foreign memory.
TEST(GgufTensorTest, RefusesDataPastTheEndOfTheFile) {
  EXPECT_THAT(Parse({{.dims = {8}, .offset = 4096}}),
              IsDataLoss("tensor \"t\"", "32 bytes", "offset 4096",
                         "the file has 4160 bytes"));
  EXPECT_TRUE(Parse({{.dims = {8}, .offset = 4064}}).ok());
}

// CVE-2025-53630: sums of offsets and sizes that wrap.
TEST(GgufTensorTest, RefusesAnOffsetThatWraps) {
  EXPECT_THAT(Parse({{.dims = {8}, .offset = kMax - 31}}),
              IsDataLoss("tensor \"t\"", std::to_string(kMax - 31)));
}

TEST(GgufTensorTest, RefusesAnOffsetThatIsNotAligned) {
  EXPECT_THAT(Parse({{.offset = 16}}),
              IsDataLoss("tensor \"t\"", "offset 16", "alignment is 32"));
}

TEST(GgufTensorTest, RefusesTensorsThatOverlap) {
  EXPECT_THAT(Parse({{.name = "a", .dims = {16}, .offset = 32},
                     {.name = "b", .dims = {16}, .offset = 0}}),
              IsDataLoss("tensor \"a\"", "inside tensor \"b\""));
  EXPECT_THAT(Parse({{.name = "a", .offset = 64}, {.name = "b", .offset = 64}}),
              IsDataLoss("\"a\"", "\"b\""));
}

TEST(GgufTensorTest, AcceptsHolesBetweenTensors) {
  EXPECT_TRUE(Parse({{.name = "a", .offset = 128}, {.name = "b"}}).ok());
}

TEST(GgufTensorTest, RefusesAFileThatEndsBeforeItsData) {
  const std::string whole = FileOf({{}}, 32);
  EXPECT_TRUE(Parse(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(Parse(whole.substr(0, size)), IsDataLoss("bad.gguf")) << size;
  }
}

class GgufAlignmentTest : public ::testing::Test {
 protected:
  static std::string FileWith(const GgufValue& alignment) {
    GgufWriter writer;
    writer.Set("general.alignment", alignment);
    writer.AddTensor("a", DType::kF32, {3}, std::vector<float>{1, 2, 3});
    writer.AddTensor("b", DType::kF32, {2}, std::vector<float>{4, 5});
    return writer.Serialize();
  }
};

TEST_F(GgufAlignmentTest, FollowsTheKey) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    const std::string file = FileWith(alignment);
    const auto contents = ParseGguf(AsBytes(file), "a.gguf");
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->tensors[1].offset % alignment, 0u);
    EXPECT_EQ(*reinterpret_cast<const float*>(file.data() +
                                              contents->tensors[1].offset),
              4.0f);
  }
}

// antirez/gguf-tools#27: an alignment of 0 as a divisor.
TEST_F(GgufAlignmentTest, RefusesWhatIsNoPowerOfTwo) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0xFFFFFFFFu}) {
    ByteBuilder file = GgufHeader(0, 1);
    file.String("general.alignment").Add(4u).Add(alignment);
    EXPECT_THAT(Parse(file.str()),
                IsDataLoss("bad.gguf", "general.alignment",
                           std::to_string(alignment), "power of two"));
  }
}

TEST_F(GgufAlignmentTest, RefusesWhatIsNoUnsignedNumber) {
  EXPECT_THAT(Parse(FileWith(int32_t{-32})), IsDataLoss("alignment", "-32"));
  EXPECT_THAT(Parse(FileWith(32.0)), IsDataLoss("alignment", "32.0"));
  EXPECT_THAT(Parse(FileWith("32")), IsDataLoss("alignment", "string"));
}

TEST_F(GgufAlignmentTest, RefusesOneThatPutsTheDataPastTheEnd) {
  ByteBuilder file = GgufHeader(1, 1);
  file.String("general.alignment").Add(10u).Add(uint64_t{1} << 63);
  file.String("t").Add(1u).Add<uint64_t>(1).Add(kF32).Add<uint64_t>(0);
  file.Raw(std::string(64, '\0'));

  EXPECT_THAT(Parse(file.str()), IsDataLoss("\"t\"", "inside the header"));
}

}  // namespace
}  // namespace headrace
