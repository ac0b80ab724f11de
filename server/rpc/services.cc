#include "server/rpc/services.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/convert/generate_request.h"
#include "server/convert/models.h"
#include "server/convert/tokenize.h"
#include "server/convert/vectors.h"
#include "server/rpc/embed.h"
#include "server/rpc/forward.h"
#include "server/rpc/generate.h"
#include "server/rpc/malformed_requests.h"
#include "server/rpc/unary_reactor.h"

namespace headrace {

namespace {

int IndexOf(const char* method) {
  return google::protobuf::DescriptorPool::generated_pool()
      ->FindMethodByName(absl::StrCat("headrace.v1.InferenceService.", method))
      ->index();
}

class Refusal final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

// What generated code has for a method that streams its responses, but for
// their type and for what a client is told of a request that does not parse.
template <typename Request>
class StreamingHandler final : public grpc::internal::MethodHandler {
 public:
  using Handler =
      grpc::internal::CallbackServerStreamingHandler<Request, grpc::ByteBuffer>;

  template <typename Start>
  StreamingHandler(const char* method, Start start)
      : method_(absl::StrCat("/headrace.v1.InferenceService/", method)),
        handler_(std::move(start)) {}

  void RunHandler(const HandlerParameter& call) override {
    if (call.status.ok()) {
      handler_.RunHandler(call);
      return;
    }
    Handler([this](grpc::CallbackServerContext*, const Request*) {
      return new Refusal(MalformedRequest(method_));
    })
        .RunHandler({call.call, call.server_context, call.request,
                     grpc::Status::OK, call.internal_data,
                     call.call_requester});
  }

  void* Deserialize(grpc_call* call, grpc_byte_buffer* request,
                    grpc::Status* status, void** handler_data) override {
    return handler_.Deserialize(call, request, status, handler_data);
  }

 private:
  const std::string method_;
  Handler handler_;
};

}  // namespace

InferenceService::InferenceService(RpcContext* rpc) : rpc_(rpc) {
  MarkMethodCallback(IndexOf("Generate"),
                     new StreamingHandler<v1::GenerateRequest>(
                         "Generate", [rpc](grpc::CallbackServerContext* call,
                                           const v1::GenerateRequest* request) {
                           return StartGenerate(rpc, call, request);
                         }));
  MarkMethodCallback(IndexOf("Forward"),
                     new StreamingHandler<v1::ForwardRequest>(
                         "Forward", [rpc](grpc::CallbackServerContext* call,
                                          const v1::ForwardRequest* request) {
                           return StartForward(rpc, call, request);
                         }));
}

grpc::ServerUnaryReactor* InferenceService::Embed(
    grpc::CallbackServerContext* call, const v1::EmbedRequest* request,
    v1::EmbedResponse* response) {
  return StartEmbed(rpc_, call, request, response);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(
    grpc::CallbackServerContext* call, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleTokenize);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(
    grpc::CallbackServerContext* call, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleDetokenize);
}

grpc::ServerUnaryReactor* InferenceService::ApplyChatTemplate(
    grpc::CallbackServerContext* call,
    const v1::ApplyChatTemplateRequest* request,
    v1::ApplyChatTemplateResponse* response) {
  return new UnaryReactor(rpc_, call, request, response,
                          HandleApplyChatTemplate);
}

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* call, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleListModels);
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* call, const v1::GetModelRequest* request,
    v1::GetModelResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleGetModel);
}

grpc::ServerUnaryReactor* ModelService::ListHookPoints(
    grpc::CallbackServerContext* call, const v1::ListHookPointsRequest* request,
    v1::ListHookPointsResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleListHookPoints);
}

grpc::ServerUnaryReactor* ModelService::EstimateCapture(
    grpc::CallbackServerContext* call,
    const v1::EstimateCaptureRequest* request,
    v1::EstimateCaptureResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleEstimateCapture);
}

grpc::ServerUnaryReactor* VectorService::PutVector(
    grpc::CallbackServerContext* call, const v1::PutVectorRequest* request,
    v1::PutVectorResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandlePutVector);
}

grpc::ServerUnaryReactor* VectorService::GetVector(
    grpc::CallbackServerContext* call, const v1::GetVectorRequest* request,
    v1::GetVectorResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleGetVector);
}

grpc::ServerUnaryReactor* VectorService::DeleteVector(
    grpc::CallbackServerContext* call, const v1::DeleteVectorRequest* request,
    v1::DeleteVectorResponse* response) {
  return new UnaryReactor(rpc_, call, request, response, HandleDeleteVector);
}

}  // namespace headrace
