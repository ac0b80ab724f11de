#include "server/rpc/open_calls.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/retry_after.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

v1::EmbedRequest RequestOf(int inputs) {
  v1::EmbedRequest request;
  for (int i = 0; i < inputs; ++i) request.add_inputs();
  return request;
}

// 2 bytes on the wire each; many of them wait while one is converted.
TEST(OpenCallsTest, WhatRequestsTakeTogetherIsBounded) {
  const v1::EmbedRequest large = RequestOf(10'000);
  const auto bytes = static_cast<int64_t>(large.SpaceUsedLong());
  ASSERT_GT(bytes, 10 * static_cast<int64_t>(large.ByteSizeLong()));
  OpenCalls calls(2 * bytes);
  std::optional<OpenCall> first(std::in_place, calls, large);
  const OpenCall second(calls, large);
  EXPECT_TRUE(first->status().ok());
  EXPECT_TRUE(second.status().ok());

  {
    const OpenCall third(calls, large);
    EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(third.status().message()),
                HasSubstr("the limit is " + std::to_string(2 * bytes)));
    EXPECT_TRUE(RetryAfter(third.status()).has_value());
  }
  first.reset();

  EXPECT_TRUE(OpenCall(calls, large).status().ok());
}

TEST(OpenCallsTest, OneCallIsAdmittedWhateverItTakes) {
  OpenCalls calls(1);

  EXPECT_TRUE(OpenCall(calls, RequestOf(100)).status().ok());
}

TEST(OpenCallsTest, TheEndOfCallsIsToldOnce) {
  using enum OpenCalls::Activity;
  OpenCalls calls(1 << 20);
  EXPECT_EQ(calls.TakeActivity(), kNone);
  {
    const OpenCall call(calls, RequestOf(1));
    EXPECT_EQ(calls.TakeActivity(), kOpen);
    EXPECT_EQ(calls.TakeActivity(), kOpen);
    EXPECT_FALSE(calls.WaitUntilNone(absl::ZeroDuration()));
  }
  EXPECT_TRUE(calls.WaitUntilNone(absl::ZeroDuration()));
  EXPECT_EQ(calls.TakeActivity(), kEnded);
  EXPECT_EQ(calls.TakeActivity(), kNone);
}

}  // namespace
}  // namespace headrace
