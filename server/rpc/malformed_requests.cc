#include "server/rpc/malformed_requests.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"
#include "google/rpc/error_details.pb.h"
#include "server/convert/error_details.h"
#include "server/rpc/status.h"

namespace headrace {

namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// The field that Protobuf complained about last on this thread: a message is
// parsed and, when that fails, answered by one thread.
thread_local std::string g_field_without_utf8;

// "String field 'headrace.v1.GenerateRequest.text' contains invalid UTF-8 …"
std::string FieldOf(std::string_view complaint) {
  if (complaint.find("invalid UTF-8") == std::string_view::npos) return {};
  const size_t begin = complaint.find('\'');
  const size_t end = complaint.find('\'', begin + 1);
  if (end == std::string_view::npos) return {};
  const std::string_view path = complaint.substr(begin + 1, end - begin - 1);
  return std::string(path.substr(path.rfind('.') + 1));
}

void OnProtobufLog(google::protobuf::LogLevel level, const char* /*file*/,
                   int /*line*/, const std::string& message) {
  g_field_without_utf8 = FieldOf(message);
  if (!g_field_without_utf8.empty()) return;  // the client is told
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    LOG(FATAL) << "protobuf: " << message;
  }
  LOG(WARNING) << "protobuf: " << message;
}

// Is the method served? One that is not goes to UnknownMethods, as a stream in
// both directions, also if its service is known to a library.
bool IsServed(const ServerRpcInfo& info) {
  std::string name(absl::StripPrefix(info.method(), "/"));
  std::replace(name.begin(), name.end(), '/', '.');
  const google::protobuf::MethodDescriptor* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          name);
  return method != nullptr &&
         (info.type() != ServerRpcInfo::Type::BIDI_STREAMING ||
          (method->client_streaming() && method->server_streaming()));
}

absl::Status ParseError(std::string_view method) {
  const std::string field = std::exchange(g_field_without_utf8, {});
  if (field.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message is not a request of ", std::string(method)));
  }
  google::rpc::BadRequest details;
  auto& violation = *details.add_field_violations();
  violation.set_field(field);
  violation.set_description("must be valid UTF-8");
  return WithDetail(
      absl::InvalidArgumentError(absl::StrCat(field, " must be valid UTF-8")),
      details);
}

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(const char* method) : method_(method) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    // No method here is unimplemented: only gRPC itself says so.
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS) &&
        methods->GetSendStatus().error_code() ==
            grpc::StatusCode::UNIMPLEMENTED) {
      methods->ModifySendStatus(MalformedRequest(method_));
    }
    methods->Proceed();
  }

 private:
  const std::string method_;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    const bool explains_itself =
        info->type() == ServerRpcInfo::Type::SERVER_STREAMING &&
        std::string_view(info->method()).starts_with("/headrace.v1.");
    return IsServed(*info) && !explains_itself ? new Interceptor(info->method())
                                               : nullptr;
  }
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
ExplainMalformedRequests() {
  google::protobuf::SetLogHandler(OnProtobufLog);
  return std::make_unique<Factory>();
}

grpc::Status MalformedRequest(std::string_view method) {
  return ToGrpcStatus(ParseError(method));
}

}  // namespace headrace
