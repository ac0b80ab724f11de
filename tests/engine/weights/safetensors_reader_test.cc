// One .safetensors file: every check that the format asks for.
#include "engine/weights/safetensors_reader.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/byte_builder.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

absl::Status Parse(std::string_view bytes) {
  return ParseSafetensors(AsBytes(bytes), "bad.safetensors").status();
}

// A header with one entry `t` of these fields, over `data_bytes` of data.
std::string OneTensor(const std::string& fields, size_t data_bytes = 8) {
  return SafetensorsFile(absl::StrCat(R"({"t":{)", fields, "}}"),
                         std::string(data_bytes, '\0'));
}

constexpr char kGood[] = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

TEST(SafetensorsReaderTest, ReadsShapesScalarsAndEmptyTensors) {
  const std::vector<SafetensorsEntry> entries = {
      {"matrix", "BF16", {2, 3}, std::string(12, 'x')},
      {"scalar", "F32", {}, std::string(4, 'y')},
      {"empty", "F16", {0, 5}, ""}};
  const std::string file = SerializeSafetensors(entries);

  const auto infos = ParseSafetensors(AsBytes(file), "a.safetensors");

  ASSERT_TRUE(infos.ok()) << infos.status();
  ASSERT_EQ(infos->size(), 3u);
  EXPECT_EQ((*infos)[0].name, "matrix");
  EXPECT_EQ((*infos)[0].shape, (Shape{2, 3}));
  EXPECT_EQ((*infos)[0].dtype, DType::kBF16);
  EXPECT_EQ(file.substr((*infos)[0].offset, 12), std::string(12, 'x'));
  EXPECT_EQ((*infos)[1].shape, Shape{});
  EXPECT_EQ((*infos)[1].bytes, 4);
  EXPECT_EQ((*infos)[2].shape, (Shape{0, 5}));
  EXPECT_EQ((*infos)[2].bytes, 0);
}

TEST(SafetensorsReaderTest, AcceptsMetadataPaddingAndAFileWithoutTensors) {
  EXPECT_TRUE(Parse(SafetensorsFile("{}", "")).ok());
  EXPECT_TRUE(Parse(SafetensorsFile("{}      ", "")).ok());
  EXPECT_TRUE(
      Parse(SafetensorsFile(R"({"__metadata__":{"format":"pt"}})", "")).ok());
  EXPECT_TRUE(Parse(OneTensor(kGood)).ok());
}

TEST(SafetensorsReaderTest, RefusesAFileTooShortForItsLength) {
  EXPECT_THAT(Parse(""), IsDataLoss("bad.safetensors", "0 bytes"));
  EXPECT_THAT(Parse("1234567"), IsDataLoss("bad.safetensors", "7 bytes"));
}

TEST(SafetensorsReaderTest, RefusesAHeaderLongerThanTheFileOrTheLimit) {
  EXPECT_THAT(Parse(ByteBuilder().Add<uint64_t>(50).Raw("{}").str()),
              IsDataLoss("offset 0", "50 bytes", "2 more"));
  EXPECT_THAT(Parse(ByteBuilder().Add<uint64_t>(100000001).Raw("{}").str()),
              IsDataLoss("100000001", "the limit is 100000000"));
  EXPECT_THAT(Parse(ByteBuilder().Add(~uint64_t{0}).Raw("{}").str()),
              IsDataLoss("18446744073709551615"));
}

TEST(SafetensorsReaderTest, RefusesAHeaderThatIsNoObject) {
  EXPECT_THAT(Parse(SafetensorsFile("[]", "")), IsDataLoss("offset 8", "'{'"));
  EXPECT_THAT(Parse(SafetensorsFile(" {}", "")), IsDataLoss("offset 8"));
  EXPECT_THAT(Parse(SafetensorsFile("", "")), IsDataLoss("offset 8"));
}

TEST(SafetensorsReaderTest, RefusesAHeaderThatIsNotJson) {
  EXPECT_THAT(Parse(SafetensorsFile(R"({"t":)", "")),
              IsDataLoss("bad.safetensors", "offset", "not JSON"));
  EXPECT_THAT(Parse(SafetensorsFile("{} x", "")), IsDataLoss("not JSON"));
  EXPECT_THAT(Parse(SafetensorsFile(std::string("{}\0\0", 4), "")),
              IsDataLoss("not JSON"));
  EXPECT_THAT(Parse(SafetensorsFile("{\"\xFF\":1}", "")),
              IsDataLoss("not JSON"));
}

TEST(SafetensorsReaderTest, RefusesNestingWhereNoneBelongs) {
  std::string deep = R"({"t":{"shape":)";
  deep += std::string(100000, '[');
  EXPECT_THAT(Parse(SafetensorsFile(deep, "")),
              IsDataLoss("tensor \"t\"", "array"));
  EXPECT_THAT(Parse(SafetensorsFile(R"({"t":{"dtype":{}}})", "")),
              IsDataLoss("tensor \"t\"", "object"));
  EXPECT_THAT(Parse(SafetensorsFile(R"({"t":[1]})", "")),
              IsDataLoss("tensor \"t\"", "array"));
  EXPECT_THAT(Parse(SafetensorsFile(R"({"t":null})", "")),
              IsDataLoss("tensor \"t\"", "null"));
  EXPECT_THAT(Parse(SafetensorsFile(R"({"__metadata__":{"n":1}})", "")),
              IsDataLoss("__metadata__", "number"));
}

TEST(SafetensorsReaderTest, RefusesEntriesThatLackOrRepeatAField) {
  EXPECT_THAT(Parse(OneTensor(R"("dtype":"F32","shape":[2])")),
              IsDataLoss("tensor \"t\"", "lacks"));
  EXPECT_THAT(Parse(OneTensor("")), IsDataLoss("tensor \"t\"", "lacks"));
  EXPECT_THAT(Parse(OneTensor(absl::StrCat(kGood, R"(,"shape":[1])"))),
              IsDataLoss("tensor \"t\"", "shape twice"));
  EXPECT_THAT(Parse(OneTensor(absl::StrCat(kGood, R"(,"more":1)"))),
              IsDataLoss("tensor \"t\"", "unknown field \"more\""));
}

TEST(SafetensorsReaderTest, RefusesNumbersThatAreNoSizes) {
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "-2"));
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "2.0"));
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])")),
      IsDataLoss("tensor \"t\"", "1 data_offsets"));
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])")),
      IsDataLoss("tensor \"t\"", "3 data_offsets"));
}

TEST(SafetensorsReaderTest, RefusesARankAboveTheLimit) {
  EXPECT_THAT(Parse(OneTensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],)"
                              R"("data_offsets":[0,8])")),
              IsDataLoss("tensor \"t\"", "more than 8"));
}

TEST(SafetensorsReaderTest, RefusesANameTwice) {
  EXPECT_THAT(Parse(SafetensorsFile(
                  absl::StrCat(R"({"t":{)", kGood, R"(},"t":{)", kGood, "}}"),
                  std::string(8, '\0'))),
              IsDataLoss("bad.safetensors", "\"t\"", "twice"));
}

TEST(SafetensorsReaderTest, RefusesADtypeThatDoesNotExist) {
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "\"F31\""));
}

TEST(SafetensorsReaderTest, RefusesASizeThatIsNotTheShapes) {
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "8 bytes", "F32 of shape [3] takes 12"));
}

TEST(SafetensorsReaderTest, RefusesAShapeWhoseProductWraps) {
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "no whole number below 2^64"));
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F32","shape":[18446744073709551615,0],)"
                      R"("data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "no whole number below 2^64"));
}

TEST(SafetensorsReaderTest, RefusesBitsThatAreNoWholeBytes) {
  EXPECT_THAT(
      Parse(OneTensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])")),
      IsDataLoss("tensor \"t\"", "F4"));
  EXPECT_TRUE(
      Parse(OneTensor(R"("dtype":"F4","shape":[16],"data_offsets":[0,8])"))
          .ok());
}

TEST(SafetensorsReaderTest, RefusesHolesAndOverlaps) {
  const auto two = [](const char* second) {
    return SafetensorsFile(
        absl::StrCat(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                     R"("b":{"dtype":"U8","shape":[4],"data_offsets":)",
                     second, "}}"),
        std::string(9, '\0'));
  };
  EXPECT_THAT(Parse(two("[5,9]")), IsDataLoss("tensor \"b\"", "[5, 9]", "4"));
  EXPECT_THAT(Parse(two("[3,7]")), IsDataLoss("tensor \"b\"", "[3, 7]", "4"));
  EXPECT_THAT(Parse(two("[0,4]")), IsDataLoss("\"", "[0, 4]"));
  EXPECT_THAT(Parse(two("[4,3]")), IsDataLoss("tensor \"b\"", "[4, 3]"));
}

TEST(SafetensorsReaderTest, RefusesDataThatIsCutOrGoesOn) {
  const std::string whole = OneTensor(kGood);
  const std::string end = std::to_string(whole.size());
  EXPECT_THAT(
      Parse(whole.substr(0, whole.size() - 1)),
      IsDataLoss("bad.safetensors", "tensor \"t\"", "ends at byte " + end,
                 std::to_string(whole.size() - 1) + " bytes"));
  EXPECT_THAT(Parse(whole + "x"),
              IsDataLoss("ends at byte " + end,
                         std::to_string(whole.size() + 1) + " bytes"));
}

TEST(SafetensorsReaderTest, RefusesEveryFileCutAnywhere) {
  const std::string whole = OneTensor(kGood);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(Parse(whole.substr(0, size)), IsDataLoss("bad.safetensors"))
        << size;
  }
}

TEST(SafetensorsReaderTest, RefusesEndsThatWrap) {
  EXPECT_THAT(Parse(OneTensor(R"("dtype":"U8","shape":[2],)"
                              R"("data_offsets":[0,18446744073709551615])")),
              IsDataLoss("tensor \"t\"", "18446744073709551615"));
}

// The abuse of the format's own attack collection: many entries over one small
// buffer.
TEST(SafetensorsReaderTest, RefusesManyTensorsOverOneBuffer) {
  std::string header = "{";
  for (int i = 0; i < 100000; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"t", i,
                    R"(":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})");
  }
  EXPECT_THAT(Parse(SafetensorsFile(header + "}", std::string(8, '\0'))),
              IsDataLoss("data_offsets [0, 8]"));
}

}  // namespace
}  // namespace headrace
