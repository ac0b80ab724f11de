#include "server/convert/violations.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

// Bytes of the status as gRPC's trailers carry it: text percent-encoded at the
// worst, details in base64.
size_t TrailerBytes(const absl::Status& status) {
  const google::rpc::Status proto = ToRpcStatus(status);
  return proto.message().size() * 3 + proto.ByteSizeLong() * 4 / 3;
}

TEST(ViolationsTest, NoneIsOk) { EXPECT_TRUE(Violations().ToStatus().ok()); }

TEST(ViolationsTest, AllAreNamedInMessageAndDetails) {
  Violations violations;
  violations.Add("sampling.top_p", "must be in (0, 1]; is 2");
  violations.AddAll("context_extension", {{"max_context", "is too large"}});

  const absl::Status status = violations.ToStatus();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "sampling.top_p must be in (0, 1]; is 2; "
            "context_extension.max_context is too large");
  EXPECT_THAT(ViolationsOf(status),
              ElementsAre("sampling.top_p: must be in (0, 1]; is 2",
                          "context_extension.max_context: is too large"));
}

TEST(ViolationsTest, ManyEndInACountAndFitTheTrailers) {
  Violations violations;
  for (int i = 0; i < 100'000; ++i) {
    violations.CheckTokenId("tokens.ids", i, 4294967295u, 49152);
  }

  const absl::Status status = violations.ToStatus();

  const std::vector<std::string> lines = ViolationsOf(status);
  EXPECT_GT(lines.size(), 20u);
  EXPECT_EQ(violations.count(), 100'000u);
  EXPECT_LT(violations.list().size(), 1000u) << "kept, to be thrown away";
  EXPECT_EQ(lines.back(),
            ": and " + std::to_string(100'001 - lines.size()) + " more");
  EXPECT_THAT(std::string(status.message()), EndsWith(" more"));
  EXPECT_LT(TrailerBytes(status), 8192u - 512u);
}

TEST(ViolationsTest, LongAndMalformedTextIsCutToValidUtf8) {
  Violations violations;
  std::string text;
  while (text.size() < 10'000) text += "\u4F60";
  violations.Add(text, text + "\xFF");
  violations.Add("other", "\xE4\xBD");

  const absl::Status status = violations.ToStatus();

  EXPECT_LT(TrailerBytes(status), 8192u - 512u);
  EXPECT_THAT(ViolationsOf(status).back(), EndsWith("\uFFFD"));
}

TEST(ViolationsTest, TokenIdsAreBelowTheVocabulary) {
  Violations violations;

  EXPECT_TRUE(violations.CheckTokenId("ids", 7, 259, 260));
  EXPECT_FALSE(violations.CheckTokenId("ids", 7, 260, 260));
  EXPECT_EQ(violations.list()[0].description,
            "must be below 260, the size of the vocabulary; is 260");
}

}  // namespace
}  // namespace headrace
