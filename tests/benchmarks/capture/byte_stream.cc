#include "tests/benchmarks/capture/byte_stream.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <iostream>
#include <memory>
#include <vector>

#include "absl/log/check.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace headrace {
namespace {

constexpr char kMethod[] = "/headrace.benchmark/Bytes";

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  CHECK(buffer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// The request is "MESSAGES BYTES".
class ByteStream final : public grpc::ServerGenericBidiReactor {
 public:
  ByteStream() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    int64_t bytes = 0;
    const std::string text = ok ? TextOf(request_) : "";
    const std::vector<std::string> parts = absl::StrSplit(text, ' ');
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &left_) ||
        !absl::SimpleAtoi(parts[1], &bytes)) {
      Finish(
          grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "MESSAGES BYTES"));
      return;
    }
    const std::string message(bytes, 'x');
    grpc::Slice slice(message);
    message_ = grpc::ByteBuffer(&slice, 1);
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (left_-- > 0) {
      StartWrite(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }

  grpc::ByteBuffer request_, message_;
  int64_t left_ = 0;
};

class ByteService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new ByteStream;
  }
};

}  // namespace

void ServeBytes() {
  ByteService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr);
  std::cout << port << std::endl;
  server->Wait();
}

double ReadBytes(const std::string& address, int64_t messages,
                 int64_t message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  const grpc::internal::RpcMethod method(
      kMethod, grpc::internal::RpcMethod::SERVER_STREAMING, channel);
  grpc::Slice slice(absl::StrCat(messages, " ", message_bytes));
  const grpc::ByteBuffer request(&slice, 1);
  CHECK(channel->WaitForConnected(std::chrono::system_clock::now() +
                                  std::chrono::seconds(10)));

  const absl::Time start = absl::Now();
  grpc::ClientContext context;
  // What generated code calls.
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(
          channel.get(), method, &context, request));
  grpc::ByteBuffer message;
  int64_t read = 0;
  while (reader->Read(&message)) {
    CHECK_EQ(static_cast<int64_t>(message.Length()), message_bytes);
    ++read;
  }
  CHECK(reader->Finish().ok());
  CHECK_EQ(read, messages);
  return absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace headrace
