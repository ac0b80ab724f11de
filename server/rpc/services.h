// The services of headrace.v1: each RPC starts its reactor.
#ifndef HEADRACE_SERVER_RPC_SERVICES_H_
#define HEADRACE_SERVER_RPC_SERVICES_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "headrace/v1/inference.grpc.pb.h"
#include "server/rpc/rpc_context.h"

namespace headrace {

class InferenceService final : public v1::InferenceService::CallbackService {
 public:
  // `rpc` outlives this. Generate and Forward give messages to the transport
  // as bytes (wire_message.h), and so are no methods of this.
  explicit InferenceService(RpcContext* rpc);

  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* call,
                                  const v1::EmbedRequest* request,
                                  v1::EmbedResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* call, const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* ApplyChatTemplate(
      grpc::CallbackServerContext* call,
      const v1::ApplyChatTemplateRequest* request,
      v1::ApplyChatTemplateResponse* response) override;

 private:
  RpcContext* const rpc_;
};

class ModelService final : public v1::ModelService::CallbackService {
 public:
  // `rpc` outlives this.
  explicit ModelService(RpcContext* rpc) : rpc_(rpc) {}

  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* call, const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* call,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* ListHookPoints(
      grpc::CallbackServerContext* call,
      const v1::ListHookPointsRequest* request,
      v1::ListHookPointsResponse* response) override;
  grpc::ServerUnaryReactor* EstimateCapture(
      grpc::CallbackServerContext* call,
      const v1::EstimateCaptureRequest* request,
      v1::EstimateCaptureResponse* response) override;

 private:
  RpcContext* const rpc_;
};

class VectorService final : public v1::VectorService::CallbackService {
 public:
  // `rpc` outlives this.
  explicit VectorService(RpcContext* rpc) : rpc_(rpc) {}

  grpc::ServerUnaryReactor* PutVector(grpc::CallbackServerContext* call,
                                      const v1::PutVectorRequest* request,
                                      v1::PutVectorResponse* response) override;
  grpc::ServerUnaryReactor* GetVector(grpc::CallbackServerContext* call,
                                      const v1::GetVectorRequest* request,
                                      v1::GetVectorResponse* response) override;
  grpc::ServerUnaryReactor* DeleteVector(
      grpc::CallbackServerContext* call, const v1::DeleteVectorRequest* request,
      v1::DeleteVectorResponse* response) override;

 private:
  RpcContext* const rpc_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_SERVICES_H_
