// What a client needs of a transport; gRPC is one (grpc_stub.cc), a fake in
// tests another.
#ifndef HEADRACE_CLIENT_CPP_INTERNAL_STUB_H_
#define HEADRACE_CLIENT_CPP_INTERNAL_STUB_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/cpp/options.h"
#include "client/cpp/stream.h"

namespace headrace::client::internal {

// Thread-safe.
class Stub {
 public:
  virtual ~Stub() = default;
  virtual std::unique_ptr<GenerateStream> Generate(
      const v1::GenerateRequest& request) = 0;
  virtual std::unique_ptr<ForwardStream> Forward(
      const v1::ForwardRequest& request) = 0;
  virtual absl::StatusOr<v1::EmbedResponse> Embed(
      const v1::EmbedRequest& request) = 0;
  virtual absl::StatusOr<v1::TokenizeResponse> Tokenize(
      const v1::TokenizeRequest& request) = 0;
  virtual absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      const v1::DetokenizeRequest& request) = 0;
  virtual absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
      const v1::ApplyChatTemplateRequest& request) = 0;
  virtual absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request) = 0;
  virtual absl::StatusOr<v1::GetModelResponse> GetModel(
      const v1::GetModelRequest& request) = 0;
  virtual absl::StatusOr<v1::ListHookPointsResponse> ListHookPoints(
      const v1::ListHookPointsRequest& request) = 0;
  virtual absl::StatusOr<v1::EstimateCaptureResponse> EstimateCapture(
      const v1::EstimateCaptureRequest& request) = 0;
  virtual absl::StatusOr<v1::PutVectorResponse> PutVector(
      const v1::PutVectorRequest& request) = 0;
  virtual absl::StatusOr<v1::GetVectorResponse> GetVector(
      const v1::GetVectorRequest& request) = 0;
  virtual absl::StatusOr<v1::DeleteVectorResponse> DeleteVector(
      const v1::DeleteVectorRequest& request) = 0;
  virtual absl::StatusOr<ServingStatus> Health(const std::string& service) = 0;
};

std::unique_ptr<Stub> MakeGrpcStub(const ClientOptions& options);

}  // namespace headrace::client::internal

#endif  // HEADRACE_CLIENT_CPP_INTERNAL_STUB_H_
