// InferenceService.Forward: Generate's way, with nothing sampled.
#ifndef HEADRACE_SERVER_RPC_FORWARD_H_
#define HEADRACE_SERVER_RPC_FORWARD_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "headrace/v1/generation.pb.h"
#include "server/rpc/rpc_context.h"

namespace headrace {

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartForward(
    RpcContext* rpc, grpc::CallbackServerContext* call,
    const v1::ForwardRequest* request);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_FORWARD_H_
