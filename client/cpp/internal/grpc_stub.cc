// The transport: gRPC channels and stubs, and nothing above them.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "client/cpp/internal/grpc_status.h"
#include "client/cpp/internal/stub.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "headrace/v1/inference.grpc.pb.h"

namespace headrace::client::internal {
namespace {

std::shared_ptr<grpc::ChannelCredentials> Credentials(
    const ClientOptions& options) {
  if (!options.use_tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {.pem_root_certs = options.tls.root_certificates,
       .pem_private_key = options.tls.private_key,
       .pem_cert_chain = options.tls.certificate_chain});
}

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]") ||
         absl::StartsWith(address, "unix:");
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  if (IsLoopback(options.address)) {
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  }
  return grpc::CreateCustomChannel(options.address, Credentials(options),
                                   arguments);
}

// A server stream. Next() and Finish() belong to one thread; Cancel() to any.
template <typename Event>
class GrpcStream final : public EventStream<Event> {
 public:
  GrpcStream(std::unique_ptr<grpc::ClientContext> context,
             std::unique_ptr<grpc::ClientReaderInterface<Event>> reader)
      : context_(std::move(context)), reader_(std::move(reader)) {}
  ~GrpcStream() override { Finish().IgnoreError(); }

  std::optional<Event> Next() override {
    Event event;
    if (!ended_ && reader_->Read(&event)) return event;
    ended_ = true;
    return std::nullopt;
  }
  absl::Status Finish() override {
    if (!status_.has_value()) {
      if (!ended_) Cancel();
      Event dropped;
      while (!ended_ && reader_->Read(&dropped)) {
      }
      ended_ = true;
      status_ = FromGrpcStatus(reader_->Finish());
    }
    return *status_;
  }
  void Cancel() override { context_->TryCancel(); }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderInterface<Event>> reader_;
  bool ended_ = false;
  std::optional<absl::Status> status_;
};

class GrpcStub final : public Stub {
 public:
  explicit GrpcStub(const ClientOptions& options)
      : options_(options),
        channel_(MakeChannel(options)),
        inference_(v1::InferenceService::NewStub(channel_)),
        models_(v1::ModelService::NewStub(channel_)),
        vectors_(v1::VectorService::NewStub(channel_)),
        health_(grpc::health::v1::Health::NewStub(channel_)) {}

  std::unique_ptr<GenerateStream> Generate(
      const v1::GenerateRequest& request) override {
    auto context = NewContext();
    auto reader = inference_->Generate(context.get(), request);
    return std::make_unique<GrpcStream<v1::GenerateResponse>>(
        std::move(context), std::move(reader));
  }
  std::unique_ptr<ForwardStream> Forward(
      const v1::ForwardRequest& request) override {
    auto context = NewContext();
    auto reader = inference_->Forward(context.get(), request);
    return std::make_unique<GrpcStream<v1::ForwardResponse>>(std::move(context),
                                                             std::move(reader));
  }
  absl::StatusOr<v1::EmbedResponse> Embed(
      const v1::EmbedRequest& request) override {
    return Call<v1::EmbedResponse>(*inference_, request,
                                   &v1::InferenceService::Stub::Embed);
  }
  absl::StatusOr<v1::TokenizeResponse> Tokenize(
      const v1::TokenizeRequest& request) override {
    return Call<v1::TokenizeResponse>(*inference_, request,
                                      &v1::InferenceService::Stub::Tokenize);
  }
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      const v1::DetokenizeRequest& request) override {
    return Call<v1::DetokenizeResponse>(
        *inference_, request, &v1::InferenceService::Stub::Detokenize);
  }
  absl::StatusOr<v1::ApplyChatTemplateResponse> ApplyChatTemplate(
      const v1::ApplyChatTemplateRequest& request) override {
    return Call<v1::ApplyChatTemplateResponse>(
        *inference_, request, &v1::InferenceService::Stub::ApplyChatTemplate);
  }
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request) override {
    return Call<v1::ListModelsResponse>(*models_, request,
                                        &v1::ModelService::Stub::ListModels);
  }
  absl::StatusOr<v1::GetModelResponse> GetModel(
      const v1::GetModelRequest& request) override {
    return Call<v1::GetModelResponse>(*models_, request,
                                      &v1::ModelService::Stub::GetModel);
  }
  absl::StatusOr<v1::ListHookPointsResponse> ListHookPoints(
      const v1::ListHookPointsRequest& request) override {
    return Call<v1::ListHookPointsResponse>(
        *models_, request, &v1::ModelService::Stub::ListHookPoints);
  }
  absl::StatusOr<v1::EstimateCaptureResponse> EstimateCapture(
      const v1::EstimateCaptureRequest& request) override {
    return Call<v1::EstimateCaptureResponse>(
        *models_, request, &v1::ModelService::Stub::EstimateCapture);
  }
  absl::StatusOr<v1::PutVectorResponse> PutVector(
      const v1::PutVectorRequest& request) override {
    return Call<v1::PutVectorResponse>(*vectors_, request,
                                       &v1::VectorService::Stub::PutVector);
  }
  absl::StatusOr<v1::GetVectorResponse> GetVector(
      const v1::GetVectorRequest& request) override {
    return Call<v1::GetVectorResponse>(*vectors_, request,
                                       &v1::VectorService::Stub::GetVector);
  }
  absl::StatusOr<v1::DeleteVectorResponse> DeleteVector(
      const v1::DeleteVectorRequest& request) override {
    return Call<v1::DeleteVectorResponse>(
        *vectors_, request, &v1::VectorService::Stub::DeleteVector);
  }
  absl::StatusOr<ServingStatus> Health(const std::string& service) override {
    using grpc::health::v1::HealthCheckResponse;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    const absl::StatusOr<HealthCheckResponse> response =
        Call<HealthCheckResponse>(*health_, request,
                                  &grpc::health::v1::Health::Stub::Check);
    if (!response.ok()) return response.status();
    switch (response->status()) {
      case HealthCheckResponse::SERVING:
        return ServingStatus::kServing;
      case HealthCheckResponse::NOT_SERVING:
        return ServingStatus::kNotServing;
      default:
        return ServingStatus::kUnknown;
    }
  }

 private:
  std::unique_ptr<grpc::ClientContext> NewContext() {
    auto context = std::make_unique<grpc::ClientContext>();
    if (options_.timeout < absl::InfiniteDuration()) {
      context->set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
    }
    // A connection that is coming up is waited for, but not for ever.
    const auto give_up =
        absl::ToChronoTime(absl::Now() + options_.connect_timeout);
    channel_->WaitForConnected(give_up);
    return context;
  }

  template <typename Response, typename ServiceStub, typename Request>
  absl::StatusOr<Response> Call(
      ServiceStub& stub, const Request& request,
      grpc::Status (ServiceStub::*method)(grpc::ClientContext*, const Request&,
                                          Response*)) {
    const auto context = NewContext();
    Response response;
    const grpc::Status status =
        (stub.*method)(context.get(), request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }

  ClientOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> inference_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::VectorService::Stub> vectors_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace

std::unique_ptr<Stub> MakeGrpcStub(const ClientOptions& options) {
  return std::make_unique<GrpcStub>(options);
}

}  // namespace headrace::client::internal
