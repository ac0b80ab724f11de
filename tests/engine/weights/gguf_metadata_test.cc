// GGUF's header and key-value pairs: what is read exactly, and what is
// refused. Tensors are in gguf_tensor_test.cc.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/gguf_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/byte_builder.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/gguf_writer.h"

namespace headrace {
namespace {

// Value types, as the format numbers them.
constexpr uint32_t kU8 = 0;
constexpr uint32_t kU32 = 4;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

absl::Status Parse(std::string_view bytes) {
  return ParseGguf(AsBytes(bytes), "bad.gguf").status();
}
absl::Status Parse(const ByteBuilder& builder) { return Parse(builder.str()); }

GgufContents ParseOrDie(std::string_view bytes) {
  absl::StatusOr<GgufContents> contents = ParseGguf(AsBytes(bytes), "a.gguf");
  EXPECT_TRUE(contents.ok()) << contents.status();
  return contents.ok() ? *std::move(contents) : GgufContents();
}

TEST(GgufMetadataTest, KeepsEveryNumberExactly) {
  GgufWriter writer;
  writer.Set("u8", uint8_t{255});
  writer.Set("i8", int8_t{-128});
  writer.Set("u16", uint16_t{65535});
  writer.Set("i16", int16_t{-32768});
  writer.Set("u32", uint32_t{4294967295});
  writer.Set("i32", int32_t{-2147483647 - 1});
  writer.Set("u64", std::numeric_limits<uint64_t>::max());
  writer.Set("i64", std::numeric_limits<int64_t>::min());
  writer.Set("f32", 0.1f);
  writer.Set("f64", 0.1);
  writer.Set("yes", true);
  writer.Set("no", false);

  const auto metadata = ParseOrDie(writer.Serialize()).metadata;

  EXPECT_EQ(metadata["u8"], 255);
  EXPECT_EQ(metadata["i8"], -128);
  EXPECT_EQ(metadata["u16"], 65535);
  EXPECT_EQ(metadata["i16"], -32768);
  EXPECT_EQ(metadata["u32"], 4294967295);
  EXPECT_EQ(metadata["i32"], -2147483648);
  EXPECT_EQ(metadata["u64"].get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(metadata["i64"].get<int64_t>(),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(metadata["f32"].get<double>(), double{0.1f});
  EXPECT_EQ(metadata["f64"].get<double>(), 0.1);
  EXPECT_TRUE(metadata["yes"].is_boolean());
  EXPECT_EQ(metadata["yes"], true);
  EXPECT_EQ(metadata["no"], false);
}

TEST(GgufMetadataTest, KeepsNanAndInfinity) {
  GgufWriter writer;
  writer.Set("nan", std::nanf(""));
  writer.Set("inf", std::numeric_limits<double>::infinity());

  const auto metadata = ParseOrDie(writer.Serialize()).metadata;

  EXPECT_TRUE(std::isnan(metadata["nan"].get<double>()));
  EXPECT_TRUE(std::isinf(metadata["inf"].get<double>()));
}

TEST(GgufMetadataTest, KeepsArraysAndTheOrderOfKeys) {
  GgufWriter writer;
  writer.Set("z", std::vector<std::string>{"", "é", std::string("a\0b", 3)});
  writer.Set("a", std::vector<int32_t>{-1, 2});
  writer.Set("m", std::vector<float>{});

  const auto metadata = ParseOrDie(writer.Serialize()).metadata;

  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"z", "a", "m"}));
  EXPECT_EQ(metadata["z"].get<std::vector<std::string>>(),
            (std::vector<std::string>{"", "é", std::string("a\0b", 3)}));
  EXPECT_EQ(metadata["a"].get<std::vector<int>>(), (std::vector<int>{-1, 2}));
  EXPECT_TRUE(metadata["m"].is_array());
  EXPECT_TRUE(metadata["m"].empty());
}

TEST(GgufMetadataTest, ReadsArraysOfArraysAndOfBools) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("k").Add(kArray).Add(kArray).Add<uint64_t>(2);
  file.Add(kU8).Add<uint64_t>(1).Add<uint8_t>(7);
  file.Add(kBool).Add<uint64_t>(2).Add<uint8_t>(1).Add<uint8_t>(0);

  const auto metadata = ParseOrDie(file.str()).metadata;

  EXPECT_EQ(metadata["k"].dump(), "[[7],[true,false]]");
}

TEST(GgufMetadataTest, ReadsVersionsTwoAndThree) {
  for (const uint32_t version : {2u, 3u}) {
    EXPECT_EQ(ParseOrDie(GgufHeader(0, 0, version).str()).version, version);
  }
}

TEST(GgufMetadataTest, RefusesOtherVersions) {
  EXPECT_THAT(Parse(GgufHeader(0, 0, 1)),
              IsDataLoss("bad.gguf", "offset 4", "version is 1", "2 and 3"));
  EXPECT_THAT(Parse(GgufHeader(0, 0, 4)),
              IsDataLoss("bad.gguf", "offset 4", "version is 4"));
}

TEST(GgufMetadataTest, RefusesTheOtherByteOrder) {
  EXPECT_THAT(Parse(GgufHeader(0, 0, 0x03000000u)),
              IsDataLoss("bad.gguf", "offset 4", "0x3000000", "big-endian"));
}

TEST(GgufMetadataTest, RefusesAnotherMagic) {
  EXPECT_THAT(Parse("GGML then 24 bytes and more"),
              IsDataLoss("bad.gguf", "offset 0", "\"GGML\"", "\"GGUF\""));
}

// CVE-2024-39720: a file of four bytes.
TEST(GgufMetadataTest, RefusesEveryFileCutInsideTheHeader) {
  const std::string whole = GgufHeader(0, 0).str();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(Parse(whole.substr(0, size)), IsDataLoss("bad.gguf", "offset"))
        << size;
  }
  EXPECT_TRUE(Parse(whole).ok());
}

// CVE-2024-21836, CVE-2024-23605: counts times record size wrap.
TEST(GgufMetadataTest, RefusesCountsThatTheFileCannotHold) {
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(
      Parse(GgufHeader(huge, 0)),
      IsDataLoss("bad.gguf", "offset 8",
                 "tensor count is " + std::to_string(huge), "0 bytes left"));
  EXPECT_THAT(Parse(GgufHeader(0, huge)),
              IsDataLoss("offset 16", "key count is " + std::to_string(huge)));
  EXPECT_THAT(Parse(GgufHeader(0, 2).String("k").Add(kU8).Add<uint8_t>(1)),
              IsDataLoss("offset 16", "key count is 2", "hold 1 at the most"));
}

// CVE-2024-23496: length + 1 wraps.
TEST(GgufMetadataTest, RefusesAKeyLongerThanTheFile) {
  for (const uint64_t size :
       {std::numeric_limits<uint64_t>::max(), uint64_t{65535}}) {
    ByteBuilder file = GgufHeader(0, 1);
    file.Add(size).Raw("abcdefgh");
    EXPECT_THAT(Parse(file), IsDataLoss("key 1 of 1", std::to_string(size)));
  }
}

// CVE-2024-21825: array and string lengths that wrap.
TEST(GgufMetadataTest, RefusesAStringLongerThanTheFile) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("a.b").Add(kString).Add<uint64_t>(100).Raw("short");

  EXPECT_THAT(Parse(file), IsDataLoss("bad.gguf", "key \"a.b\"", "offset 47",
                                      "100 bytes", "5 more"));
}

TEST(GgufMetadataTest, RefusesAStringOfAbsurdLength) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("a.b").Add(kString);
  const std::string at = file.here();
  file.Add(std::numeric_limits<uint64_t>::max());

  EXPECT_THAT(Parse(file), IsDataLoss("key \"a.b\"", at, "the limit is"));
}

TEST(GgufMetadataTest, NamesTheElementOfAStringArrayThatIsCut) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("tokens").Add(kArray).Add(kString).Add<uint64_t>(3);
  file.String("a").String("b").Add<uint64_t>(9).Raw("cut");

  EXPECT_THAT(Parse(file), IsDataLoss("key \"tokens\"[2]", "9 bytes"));
}

TEST(GgufMetadataTest, RefusesAnArrayLongerThanTheFile) {
  // Times 4 this wraps to 4 bytes; times 1 it does not.
  for (const auto& [type, size] :
       {std::pair{kU32, (uint64_t{1} << 62) + 1}, std::pair{kU8, uint64_t{9}},
        std::pair{kString, uint64_t{2}}, std::pair{kArray, uint64_t{1}}}) {
    ByteBuilder file = GgufHeader(0, 1);
    file.String("k").Add(kArray).Add(type);
    const std::string at = file.here();
    file.Add(size).Raw("12345678");
    EXPECT_THAT(
        Parse(file),
        IsDataLoss("key \"k\"", at, "array length is " + std::to_string(size)));
  }
}

TEST(GgufMetadataTest, RefusesArraysNestedTooDeep) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("deep").Add(kArray);
  for (int i = 0; i < 1000; ++i) file.Add(kArray).Add<uint64_t>(1);
  file.Add(kU8).Add<uint64_t>(0);

  EXPECT_THAT(Parse(file),
              IsDataLoss("key \"deep\"[0][0][0][0]", "deeper than 4"));
}

TEST(GgufMetadataTest, RefusesMoreValuesThanTheLimit) {
  ByteBuilder file = GgufHeader(0, 1);
  const uint64_t many = (uint64_t{1} << 22) + 1;
  file.String("k").Add(kArray).Add(kU8).Add(many).Raw(std::string(many, 'x'));

  EXPECT_THAT(Parse(file), IsDataLoss("key \"k\"", "4194304 values"));
}

TEST(GgufMetadataTest, RefusesABoolThatIsNeitherZeroNorOne) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("flag").Add(kBool);
  const std::string at = file.here();
  file.Add<uint8_t>(2);

  EXPECT_THAT(Parse(file), IsDataLoss("key \"flag\"", at, "bool of value 2"));
}

TEST(GgufMetadataTest, NamesTheElementOfABoolArrayThatIsNoBool) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("flags").Add(kArray).Add(kBool).Add<uint64_t>(2);
  file.Add<uint8_t>(1).Add<uint8_t>(255);

  EXPECT_THAT(Parse(file), IsDataLoss("key \"flags\"[1]", "255"));
}

TEST(GgufMetadataTest, RefusesUnknownValueTypes) {
  for (const uint32_t type : {13u, 255u, 0xFFFFFFFFu}) {
    ByteBuilder file = GgufHeader(0, 1);
    file.String("k");
    const std::string at = file.here();
    file.Add(type).Raw("12345678");
    EXPECT_THAT(Parse(file), IsDataLoss("key \"k\"", at,
                                        "value type " + std::to_string(type)));
  }
}

TEST(GgufMetadataTest, RefusesUnknownElementTypes) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("k").Add(kArray).Add(13u).Add<uint64_t>(1).Raw("12345678");

  EXPECT_THAT(Parse(file), IsDataLoss("key \"k\"", "value type 13"));
}

TEST(GgufMetadataTest, RefusesAKeyTwice) {
  ByteBuilder file = GgufHeader(0, 3);
  for (const char* key : {"a.b", "c", "a.b"}) {
    file.String(key).Add(kU8).Add<uint8_t>(1);
  }

  EXPECT_THAT(Parse(file), IsDataLoss("bad.gguf", "key \"a.b\"", "twice"));
}

// llama.cpp#24263: an assertion on an empty key.
TEST(GgufMetadataTest, RefusesAnEmptyKey) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("").Add(kU32).Add(1u);

  EXPECT_THAT(Parse(file), IsDataLoss("offset 24", "name is empty"));
}

TEST(GgufMetadataTest, RefusesAKeyThatIsNotUtf8) {
  ByteBuilder file = GgufHeader(0, 1);
  file.String("a\xFF").Add(kU8).Add<uint8_t>(1);

  EXPECT_THAT(Parse(file),
              IsDataLoss("offset 24", "name is not UTF-8", "a\\xff"));
}

TEST(GgufMetadataTest, NamesTheStringThatIsNotUtf8) {
  // A lone continuation byte, an overlong slash, a surrogate, a cut character.
  for (const char* text : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "ok \xE2\x82"}) {
    ByteBuilder file = GgufHeader(0, 1);
    file.String("tokens").Add(kArray).Add(kString).Add<uint64_t>(2);
    file.String("fine");
    const std::string at = file.here();
    file.String(text);
    EXPECT_THAT(Parse(file), IsDataLoss("key \"tokens\"[1]", at, "UTF-8"));
  }
}

TEST(GgufMetadataTest, RefusesEveryFileCutInsideAValue) {
  GgufWriter writer;
  writer.Set("name", "tiny");
  writer.Set("list", std::vector<std::string>{"one", "two"});
  writer.Set("numbers", std::vector<int32_t>{1, 2, 3});
  writer.Set("last", uint64_t{7});
  // Up to the end of the last value: what follows is padding.
  const std::string whole = writer.Serialize();
  const size_t end = whole.find("last") + 4 + 4 + 8;
  for (size_t size = 0; size < end; ++size) {
    EXPECT_THAT(Parse(whole.substr(0, size)), IsDataLoss("bad.gguf")) << size;
  }
  EXPECT_TRUE(Parse(whole.substr(0, end)).ok());
}

}  // namespace
}  // namespace headrace
