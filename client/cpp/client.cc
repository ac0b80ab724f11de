#include "client/cpp/client.h"

#include <string>
#include <string_view>
#include <utility>

#include "client/cpp/internal/stub.h"

namespace headrace::client {

namespace {

// gRPC would speak plaintext, or find out in every handshake without a word.
absl::Status CheckTls(const ClientOptions& options) {
  struct Pem {
    std::string_view name;
    const std::string& text;
    std::string_view label;
  };
  const TlsOptions& tls = options.tls;
  for (const Pem& pem : {
           Pem{"tls.root_certificates", tls.root_certificates, "CERTIFICATE"},
           Pem{"tls.certificate_chain", tls.certificate_chain, "CERTIFICATE"},
           Pem{"tls.private_key", tls.private_key, "PRIVATE KEY"},
       }) {
    if (pem.text.empty()) continue;
    std::string problem(pem.name);
    if (!options.use_tls) {
      return absl::InvalidArgumentError(problem + " needs TLS, and it is off");
    }
    if (pem.text.find(std::string(pem.label) + "-----") == std::string::npos) {
      return absl::InvalidArgumentError(
          problem.append(" has no ").append(pem.label).append(" in PEM form"));
    }
  }
  if (tls.private_key.empty() != tls.certificate_chain.empty()) {
    return absl::InvalidArgumentError(
        "mTLS needs a private key and a certificate chain, not one of them");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (options.address.empty()) {
    return absl::InvalidArgumentError("address is empty");
  }
  if (absl::Status status = CheckTls(options); !status.ok()) return status;
  return std::make_unique<Client>(internal::MakeGrpcStub(options));
}

Client::Client(std::unique_ptr<internal::Stub> stub) : stub_(std::move(stub)) {}
Client::~Client() = default;

std::unique_ptr<GenerateStream> Client::Generate(
    const v1::GenerateRequest& request) {
  return stub_->Generate(request);
}

std::unique_ptr<ForwardStream> Client::Forward(
    const v1::ForwardRequest& request) {
  return stub_->Forward(request);
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(
    const v1::EmbedRequest& request) {
  return stub_->Embed(request);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(
    const v1::TokenizeRequest& request) {
  return stub_->Tokenize(request);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(
    const v1::DetokenizeRequest& request) {
  return stub_->Detokenize(request);
}

absl::StatusOr<v1::ApplyChatTemplateResponse> Client::ApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& request) {
  return stub_->ApplyChatTemplate(request);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels() {
  return stub_->ListModels({});
}

absl::StatusOr<v1::Model> Client::GetModel(const std::string& model) {
  v1::GetModelRequest request;
  request.set_model(model);
  absl::StatusOr<v1::GetModelResponse> response = stub_->GetModel(request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_model());
}

absl::StatusOr<v1::ListHookPointsResponse> Client::ListHookPoints(
    const std::string& model) {
  v1::ListHookPointsRequest request;
  request.set_model(model);
  return stub_->ListHookPoints(request);
}

absl::StatusOr<v1::EstimateCaptureResponse> Client::EstimateCapture(
    const v1::EstimateCaptureRequest& request) {
  return stub_->EstimateCapture(request);
}

absl::StatusOr<v1::PutVectorResponse> Client::PutVector(
    const v1::PutVectorRequest& request) {
  return stub_->PutVector(request);
}

absl::StatusOr<v1::GetVectorResponse> Client::GetVector(
    const v1::GetVectorRequest& request) {
  return stub_->GetVector(request);
}

absl::Status Client::DeleteVector(const std::string& sha256) {
  v1::DeleteVectorRequest request;
  request.set_sha256(sha256);
  return stub_->DeleteVector(request).status();
}

absl::StatusOr<ServingStatus> Client::Health(const std::string& service) {
  return stub_->Health(service);
}

}  // namespace headrace::client
