// InferenceService.Generate.
#ifndef HEADRACE_SERVER_RPC_GENERATE_H_
#define HEADRACE_SERVER_RPC_GENERATE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "headrace/v1/generation.pb.h"
#include "server/rpc/rpc_context.h"

namespace headrace {

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGenerate(
    RpcContext* rpc, grpc::CallbackServerContext* call,
    const v1::GenerateRequest* request);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_GENERATE_H_
