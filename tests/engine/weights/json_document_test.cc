#include "engine/weights/json_document.h"

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/file_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/status_matchers.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JsonDocumentTest : public ::testing::Test {
 protected:
  absl::StatusOr<nlohmann::ordered_json> Parse(std::string_view text) {
    return ParseJson(text, "config.json", warnings_);
  }

  std::vector<std::string> warnings_;
};

TEST_F(JsonDocumentTest, BuildsWhatTheTextSays) {
  const std::string text =
      R"({"z":1,"a":[true,null,-2,0.5,"é",{}],"n":{"k":[]}})";

  const auto document = Parse(text);

  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->dump(), text);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(JsonDocumentTest, AcceptsScalarsAlone) {
  EXPECT_EQ(Parse("7")->get<int>(), 7);
  EXPECT_TRUE(Parse(" null ")->is_null());
}

TEST_F(JsonDocumentTest, KeepsSixtyFourBits) {
  const auto document = Parse("[18446744073709551615,-9223372036854775808]");

  ASSERT_TRUE(document.ok());
  EXPECT_EQ((*document)[0].get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(document->dump(), "[18446744073709551615,-9223372036854775808]");
}

TEST_F(JsonDocumentTest, CountsTheLastValueOfAKeyAndWarns) {
  const auto document = Parse(R"({"a":1,"b":2,"a":3,"a":4})");

  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->dump(), R"({"b":2,"a":4})");
  EXPECT_THAT(warnings_, ::testing::Each(HasSubstr("config.json: key \"a\"")));
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(JsonDocumentTest, SaysWhereTheTextIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":}", "[1] 2", "nul",
                           "{'a':1}", "[NaN]", "[1e999]", "\"\xFF\""}) {
    EXPECT_THAT(Parse(text).status(),
                IsDataLoss("config.json", "offset", "not JSON"))
        << text;
  }
}

TEST_F(JsonDocumentTest, SpeaksUtf8EvenOfWhatIsNot) {
  const absl::Status status = Parse("[\"\xFF\"]").status();
  EXPECT_TRUE(IsUtf8(std::string(status.message())));
  EXPECT_THAT(status, IsDataLoss("\\xff"));
}

// The library would stop at the NUL and hide what follows.
TEST_F(JsonDocumentTest, RefusesANulByte) {
  EXPECT_THAT(Parse(std::string_view("{}\0{\"a\":1}", 10)).status(),
              IsDataLoss("config.json", "offset 2", "NUL"));
}

TEST_F(JsonDocumentTest, RefusesNestingBeyondTheLimit) {
  const std::string legal =
      std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_TRUE(Parse(legal).ok());
  EXPECT_THAT(Parse("[" + legal + "]").status(),
              IsDataLoss("config.json", "deeper than 64"));
  EXPECT_THAT(Parse(std::string(1000000, '[')).status(),
              IsDataLoss("deeper than 64"));
}

TEST_F(JsonDocumentTest, BuildsLargeObjectsInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", "\"token", i, "\":", i);
  }
  text += "}";
  const std::clock_t start = std::clock();

  const auto document = Parse(text);

  ASSERT_TRUE(document.ok());
  EXPECT_EQ(document->size(), 200000u);
  // 0.1 s of CPU time; the library's own parser takes minutes. Wide, for
  // sanitizers.
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10);
}

}  // namespace
}  // namespace headrace
