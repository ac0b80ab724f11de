// A whole server on a fake engine and a loopback port, and a client's stubs.
#ifndef HEADRACE_TESTS_SERVER_SERVER_FIXTURE_H_
#define HEADRACE_TESTS_SERVER_SERVER_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "headrace/v1/inference.grpc.pb.h"
#include "server/server.h"
#include "tests/fakes/fake_engine.h"

namespace headrace {

// Waits, by looking again, for something that another thread will bring about.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

// The google.rpc details of a status, of one type.
template <typename Detail>
std::vector<Detail> DetailsOf(const grpc::Status& status) {
  google::rpc::Status rich;
  std::vector<Detail> details;
  if (!rich.ParseFromString(status.error_details())) return details;
  for (const google::protobuf::Any& any : rich.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) details.push_back(std::move(detail));
  }
  return details;
}

class ServerFixture : public ::testing::Test {
 protected:
  // Opens the port; nothing is served yet.
  void Open(ServerOptions options = {}) {
    options.listen = {"127.0.0.1:0"};
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Open(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect();
  }

  void Connect() {
    grpc::ChannelArguments arguments;
    // A channel of its own for every connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(
        server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::InferenceService::NewStub(channel_);
    models_ = v1::ModelService::NewStub(channel_);
    vectors_ = v1::VectorService::NewStub(channel_);
  }

  void Serve(FakeEngineOptions engine = {}) {
    auto fake = std::make_unique<FakeEngine>(std::move(engine));
    engine_ = fake.get();
    server_->Serve(std::move(fake));
    server_->SetReady();
  }

  void Start(ServerOptions options = {}, FakeEngineOptions engine = {}) {
    Open(std::move(options));
    Serve(std::move(engine));
  }

  static v1::GenerateRequest Text(const std::string& text,
                                  uint32_t max_tokens) {
    v1::GenerateRequest request;
    request.set_text(text);
    request.mutable_stop()->set_max_tokens(max_tokens);
    request.mutable_sampling()->set_temperature(0);
    return request;
  }

  // Adds a capture of resid_post, prompt and generation.
  static void CaptureResidPost(v1::GenerateRequest& request) {
    v1::CaptureSpec& capture = *request.mutable_capture();
    capture.add_hooks()->set_hook(v1::HOOK_POINT_RESID_POST);
    capture.mutable_rows()->mutable_prompt()->set_all(true);
    capture.mutable_rows()->mutable_generated()->set_all(true);
  }

  struct Answer {
    std::vector<v1::GenerateResponse> events;
    grpc::Status status;

    std::string text() const {
      std::string text;
      for (const v1::GenerateResponse& event : events) {
        text += event.token().text();
        text += event.choice_end().text();
      }
      return text;
    }
  };

  Answer Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    Answer answer;
    v1::GenerateResponse event;
    while (reader->Read(&event)) answer.events.push_back(event);
    answer.status = reader->Finish();
    return answer;
  }

  // The name of a vector that the server keeps from now on.
  std::string Put(const std::vector<float>& values) {
    grpc::ClientContext context;
    v1::PutVectorRequest request;
    request.set_f32(values.data(), values.size() * sizeof(float));
    v1::PutVectorResponse response;
    const grpc::Status status =
        vectors_->PutVector(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.sha256();
  }

  // True when nothing is left of any request.
  bool Idle() {
    const BatchStats stats = server_->stats();
    return stats.running_requests == 0 && stats.queued_requests == 0 &&
           stats.kv_cache.used_blocks == 0 && stats.ring_bytes == 0;
  }

  std::unique_ptr<Server> server_;
  FakeEngine* engine_ = nullptr;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::VectorService::Stub> vectors_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SERVER_SERVER_FIXTURE_H_
