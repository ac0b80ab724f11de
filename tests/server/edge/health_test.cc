#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthTest : public ServerFixture {
 protected:
  // -1 when the name is not known.
  int Check(const std::string& name) {
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    grpc::ClientContext context;
    const grpc::Status status =
        Health::NewStub(channel_)->Check(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return -1;
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }
};

TEST_F(HealthTest, IsNotServingBeforeTheModelIsLoaded) {
  Open();

  for (const char* name : {"", "readiness", "headrace.v1.InferenceService",
                           "headrace.v1.ModelService"}) {
    EXPECT_EQ(Check(name), HealthCheckResponse::NOT_SERVING) << name;
  }
  EXPECT_EQ(Check("liveness"), HealthCheckResponse::SERVING);
  Serve();
  for (const char* name :
       {"", "readiness", "liveness", "headrace.v1.InferenceService",
        "headrace.v1.ModelService"}) {
    EXPECT_EQ(Check(name), HealthCheckResponse::SERVING) << name;
  }
}

TEST_F(HealthTest, UnknownNamesAreNotFound) {
  Start();

  EXPECT_EQ(Check("other"), -1);
}

TEST_F(HealthTest, WatchFollowsTheServer) {
  Open();
  const auto stub = Health::NewStub(channel_);
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);

  Serve();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  std::thread drain(
      [this] { server_->Drain(absl::ZeroDuration(), absl::Seconds(1)); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
  watch->Finish();
  drain.join();
}

TEST_F(HealthTest, WatchingAnUnknownNameSaysSo) {
  Start();
  const auto stub = Health::NewStub(channel_);
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("other");
  const auto watch = stub->Watch(&context, request);
  HealthCheckResponse response;

  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthTest, AStepThatHangsIsNotServing) {
  Start({.stall_after = absl::Milliseconds(20)});
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  const auto stub = Health::NewStub(channel_);
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("liveness");
  const auto watch = stub->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  std::thread call([this] { Generate(Text("hello", 1)); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);

  release.Notify();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  call.join();
  context.TryCancel();
  watch->Finish();
}

}  // namespace
}  // namespace headrace
