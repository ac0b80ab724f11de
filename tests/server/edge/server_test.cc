#include "server/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "headrace/v1/inference.grpc.pb.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using ServerTest = ServerFixture;

int PortOf(const std::string& address) {
  return std::atoi(address.substr(address.rfind(':') + 1).c_str());
}

// Sends bytes to a port and reads what comes until the other side closes.
std::string Talk(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET,
                      .sin_port = htons(static_cast<uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
      0) {
    close(fd);
    return "no connection";
  }
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

TEST_F(ServerTest, PortZeroBecomesTheChosenOne) {
  Start();

  EXPECT_GT(PortOf(server_->addresses()[0]), 0);
  EXPECT_TRUE(Generate(Text("hello", 1)).status.ok());
}

TEST_F(ServerTest, ATakenPortIsRefused) {
  Start();
  ServerOptions options;
  options.listen = {server_->addresses()[0]};

  const auto second = Server::Open(options);

  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->addresses()[0]));
}

TEST_F(ServerTest, SeveralAddressesServe) {
  ServerOptions options;
  options.listen = {"127.0.0.1:0", "unix:" + ::testing::TempDir() +
                                       "headrace_server_test.sock"};
  auto server = Server::Open(options);
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->Serve(std::make_unique<FakeEngine>());

  for (const std::string& address : (*server)->addresses()) {
    const auto stub = v1::InferenceService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::TokenizeRequest request;
    request.add_texts("hello");
    v1::TokenizeResponse response;
    EXPECT_TRUE(stub->Tokenize(&context, request, &response).ok()) << address;
  }
}

TEST_F(ServerTest, OtherMachinesNeedTlsOrAnExplicitFlag) {
  ServerOptions options;
  options.listen = {"127.0.0.1:0", "0.0.0.0:0"};
  EXPECT_THAT(std::string(Server::Open(options).status().message()),
              HasSubstr("0.0.0.0:0 is open to other machines"));
  options.allow_insecure_remote = true;
  EXPECT_TRUE(Server::Open(options).ok());
}

TEST_F(ServerTest, BadOptionsAreNamed) {
  ServerOptions options;
  options.max_num_seqs = 0;
  EXPECT_THAT(std::string(Server::Open(options).status().message()),
              HasSubstr("max_num_seqs"));
  options = {};
  options.listen.clear();
  EXPECT_THAT(std::string(Server::Open(options).status().message()),
              HasSubstr("listen"));
  options = {.listen = {"127.0.0.1:0"}, .drain_grace = -absl::Seconds(1)};
  EXPECT_THAT(std::string(Server::Open(options).status().message()),
              HasSubstr("drain_grace: must be at least 0; is -1s"));
  options = {.listen = {"127.0.0.1:0"}, .stall_after = absl::ZeroDuration()};
  EXPECT_THAT(std::string(Server::Open(options).status().message()),
              HasSubstr("stall_after: must be above 0; is 0"));
}

// More milliseconds than an int holds.
TEST_F(ServerTest, AVeryLongConnectionAgeIsNotAShortOne) {
  Start({.max_connection_age = absl::Hours(1'000'000)});

  EXPECT_TRUE(Generate(Text("hello", 2)).status.ok());
  EXPECT_TRUE(Generate(Text("hello", 2)).status.ok());
}

TEST_F(ServerTest, DrainLetsRunningCallsFinishAndRefusesNewOnes) {
  Start();
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  Answer running;
  std::thread call([&] { running = Generate(Text("hello", 5)); });
  EXPECT_TRUE(Eventually([this] { return engine_->opened() == 1; }));
  std::thread drain(
      [this] { server_->Drain(absl::ZeroDuration(), absl::Seconds(20)); });
  EXPECT_TRUE(Eventually([&] {
    // Before the drain begins, a call waits in the queue.
    grpc::ClientContext context;
    context.set_deadline(
        absl::ToChronoTime(absl::Now() + absl::Milliseconds(100)));
    return stub_->Generate(&context, Text("late", 1))->Finish().error_code() ==
           grpc::StatusCode::UNAVAILABLE;
  }));

  release.Notify();
  call.join();
  drain.join();

  EXPECT_TRUE(running.status.ok()) << running.status.error_message();
  EXPECT_EQ(running.text().size(), 5u);
}

TEST_F(ServerTest, GraceEndsAndHurryEndsItSooner) {
  Start({.max_capture_bytes = 1 << 16}, {.hidden_size = 4096});
  v1::GenerateRequest request = Text("hello", 400);
  CaptureResidPost(request);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);  // never read
  EXPECT_TRUE(
      Eventually([this] { return server_->stats().paused_sequences == 1; }));
  const absl::Time begin = absl::Now();
  std::thread drain(
      [this] { server_->Drain(absl::Seconds(600), absl::Seconds(600)); });

  EXPECT_TRUE(Eventually([this] {
    server_->Hurry();
    return server_->stats().running_requests == 0;
  }));
  drain.join();

  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST_F(ServerTest, GarbageOnThePortHarmsNobody) {
  Start();
  const int port = PortOf(server_->addresses()[0]);
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\xFF'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
            std::string(1000, '\x01'),
        std::string(1, '\0')}) {
    Talk(port, bytes);
  }

  EXPECT_TRUE(Generate(Text("hello", 3)).status.ok());
}

TEST_F(ServerTest, ARequestOverFourMebibytesIsRefused) {
  Start();
  v1::GenerateRequest request = Text(std::string(5 << 20, 'a'), 1);

  const Answer answer = Generate(request);

  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Generate(Text("hello", 1)).status.ok());
}

// gRPC waits until its deadline for connections whose client does not look.
TEST_F(ServerTest, AnIdleConnectionDoesNotHoldUpTheEnd) {
  Start();
  ASSERT_TRUE(Generate(Text("hello", 2)).status.ok());
  const absl::Time start = absl::Now();

  server_.reset();

  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
}

// The callback API says UNIMPLEMENTED, as if there were no such method.
TEST_F(ServerTest, MalformedMessagesAreRefused) {
  Start();
  const auto answer = [this](const std::string& method,
                             const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/headrace.v1." + method,
                                            request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  };
  for (const char* method :
       {"InferenceService/Tokenize", "InferenceService/Generate",
        "InferenceService/Forward", "ModelService/GetModel"}) {
    const grpc::Status garbage = answer(method, "\xFF\xFF\xFF garbage");
    EXPECT_EQ(garbage.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(garbage.error_message(), HasSubstr(method));
  }
  const grpc::Status text =
      answer("InferenceService/Generate", "\x12\x02\xFF\xFE");
  EXPECT_EQ(text.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(text.error_message(), "text must be valid UTF-8");
  const auto details = DetailsOf<google::rpc::BadRequest>(text);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].field_violations(0).field(), "text");
  EXPECT_EQ(answer("InferenceService/Nonsense", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);

  EXPECT_TRUE(Generate(Text("hello", 1)).status.ok());
}

// What reflection answers to one request, both as bytes: the package ships no
// generated form of its protocol.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel,
                    const std::string& request) {
  grpc::GenericStub stub(channel);
  const grpc::Slice slice(request);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok) && ok);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok));

  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(response.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes;
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  Start();
  const std::string list_services("\x3A\x00", 2);  // field 7, empty string

  const std::string answer = Reflect(channel_, list_services);

  for (const char* service :
       {"headrace.v1.InferenceService", "headrace.v1.ModelService",
        "grpc.health.v1.Health"}) {
    EXPECT_THAT(answer, HasSubstr(service));
  }
}

// The file of the services has no message that anything refers to, and a linker
// leaves it out: clients like grpcurl then find names only.
TEST_F(ServerTest, ReflectionDescribesTheServices) {
  Start();
  for (const std::string service :
       {"headrace.v1.InferenceService", "headrace.v1.ModelService",
        "grpc.health.v1.Health"}) {
    const std::string containing_symbol =
        "\x22" + std::string(1, static_cast<char>(service.size())) + service;

    const std::string answer = Reflect(channel_, containing_symbol);

    EXPECT_THAT(answer, Not(HasSubstr("not found"))) << service;
    EXPECT_THAT(answer, HasSubstr(".proto")) << service;
  }
}

TEST_F(ServerTest, MetricsCountWhatWasDone) {
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  Start(options);
  ASSERT_TRUE(Generate(Text("hello", 7)).status.ok());

  std::string page;
  EXPECT_TRUE(Eventually([&] {
    page = Talk(PortOf(server_->metrics_address()),
                "GET /metrics HTTP/1.0\r\n\r\n");
    return page.find("headrace_requests_total{code=\"OK\"} 1") !=
           std::string::npos;
  })) << page;
  EXPECT_THAT(page, HasSubstr("headrace_generation_tokens_total 7"));
  EXPECT_THAT(page, HasSubstr("headrace_prompt_tokens_total 5"));
  EXPECT_THAT(page, HasSubstr("headrace_kv_blocks_used 0"));
  EXPECT_THAT(page, HasSubstr("headrace_time_to_first_token_seconds_count 1"));
}

TEST_F(ServerTest, MetricsShowWhatStaysHere) {
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  options.max_vector_bytes = 2048;
  Start(options);
  const auto put = [&](size_t floats) {
    v1::PutVectorRequest request;
    request.set_f32(std::string(floats * sizeof(float), '\0'));
    v1::PutVectorResponse response;
    grpc::ClientContext context;
    return v1::VectorService::NewStub(channel_)
        ->PutVector(&context, request, &response)
        .error_code();
  };
  ASSERT_EQ(put(8), grpc::StatusCode::OK);
  ASSERT_EQ(put(1000), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::GenerateRequest keep = Text("hello", 0);
  keep.mutable_capture()->add_hooks()->set_hook(v1::HOOK_POINT_EMBED);
  keep.mutable_capture()->mutable_rows()->mutable_prompt()->set_all(true);
  keep.mutable_capture()->mutable_keep()->set_time_to_live(60);
  ASSERT_TRUE(Generate(keep).status.ok());

  const std::string page =
      Talk(PortOf(server_->metrics_address()), "GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(page, HasSubstr("headrace_stored_vectors 1\n"));
  EXPECT_THAT(page, HasSubstr("headrace_stored_vector_bytes 544\n"));
  EXPECT_THAT(page, HasSubstr("headrace_kept_rows_handles 1\n"));
  // Five rows of eight floats with their positions.
  EXPECT_THAT(page, HasSubstr("headrace_kept_rows_bytes 712\n"));
  EXPECT_THAT(page, HasSubstr("headrace_vector_store_bytes 1256\n"));
  EXPECT_THAT(page, HasSubstr("headrace_vector_store_limit_bytes 2048\n"));
  EXPECT_THAT(page, HasSubstr("headrace_vector_store_refusals_total 1\n"));
}

TEST_F(ServerTest, ATakenMetricsPortIsRefused) {
  ServerOptions options;
  options.metrics_listen = "127.0.0.1:0";
  Start(options);
  ServerOptions second;
  second.listen = {"127.0.0.1:0"};
  second.metrics_listen = server_->metrics_address();

  EXPECT_EQ(Server::Open(second).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace headrace
