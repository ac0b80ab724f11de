#include "client/cpp/errors.h"

#include "client/cpp/internal/grpc_status.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace headrace::client {
namespace {

grpc::Status WithDetails() {
  google::rpc::Status details;
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("sampling.top_p");
  violation->set_description("is 2, outside (0, 1]");
  details.add_details()->PackFrom(bad);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500000000);
  details.add_details()->PackFrom(retry);
  return {grpc::StatusCode::INVALID_ARGUMENT, "1 field is wrong",
          details.SerializeAsString()};
}

TEST(ErrorsTest, DetailsOfAGrpcStatusAreKept) {
  const absl::Status status = internal::FromGrpcStatus(WithDetails());

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(FieldErrors(status).size(), 1u);
  EXPECT_EQ(FieldErrors(status)[0].field, "sampling.top_p");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(1500));
}

TEST(ErrorsTest, DescriptionsNameFieldsAndDelay) {
  const std::string text = Describe(internal::FromGrpcStatus(WithDetails()));

  EXPECT_THAT(text, ::testing::HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(text, ::testing::HasSubstr("sampling.top_p: is 2"));
  EXPECT_THAT(text, ::testing::HasSubstr("retry in 1.5s"));
}

TEST(ErrorsTest, StatusesWithoutDetailsHaveNone) {
  const absl::Status status = absl::UnavailableError("draining");

  EXPECT_TRUE(FieldErrors(status).empty());
  EXPECT_EQ(RetryDelay(status), std::nullopt);
}

}  // namespace
}  // namespace headrace::client
