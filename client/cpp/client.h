// The C++ SDK: a thin client of a headrace server. Streams are typed, errors
// are absl::Status (errors.h says what the server added to them).
//
//   auto client = headrace::client::Client::Create({});
//   headrace::v1::GenerateRequest request;
//   request.set_text("Once upon a time");
//   auto stream = (*client)->Generate(request);
//   while (auto event = stream->Next()) { … }
//   absl::Status status = stream->Finish();
#ifndef HEADRACE_CLIENT_CPP_CLIENT_H_
#define HEADRACE_CLIENT_CPP_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/options.h"
#include "client/cpp/stream.h"
#include "headrace/v1/generation.pb.h"
#include "headrace/v1/models.pb.h"
#include "headrace/v1/vectors.pb.h"

namespace headrace::client {

enum class ServingStatus : uint8_t { kServing, kNotServing, kUnknown };

namespace internal {
class Stub;
}  // namespace internal

// Thread-safe. Loopback addresses are never proxied.
class Client {
 public:
  // Errors: INVALID_ARGUMENT for options that contradict themselves. The
  // connection itself is made with the first call.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  // On a stub of one's own; for tests.
  explicit Client(std::unique_ptr<internal::Stub> stub);
  ~Client();

  // A stream is cancelled when it is destroyed before its end.
  std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request);
  std::unique_ptr<ForwardStream> Forward(const v1::ForwardRequest& request);

  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(
      const v1::TokenizeRequest& request);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      const v1::DetokenizeRequest& request);
  absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
      const v1::ApplyChatTemplateRequest& request);

  absl::StatusOr<v1::ListModelsResponse> ListModels();
  absl::StatusOr<v1::Model> GetModel(const std::string& model = "");
  absl::StatusOr<v1::ListHookPointsResponse> ListHookPoints(
      const std::string& model = "");
  absl::StatusOr<v1::EstimateCaptureResponse> EstimateCapture(
      const v1::EstimateCaptureRequest& request);

  absl::StatusOr<v1::PutVectorResponse> PutVector(
      const v1::PutVectorRequest& request);
  absl::StatusOr<v1::GetVectorResponse> GetVector(
      const v1::GetVectorRequest& request);
  absl::Status DeleteVector(const std::string& sha256);

  // grpc.health.v1 Check of a service name ("" is the server).
  absl::StatusOr<ServingStatus> Health(const std::string& service = "");

 private:
  std::unique_ptr<internal::Stub> stub_;
};

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_CLIENT_H_
