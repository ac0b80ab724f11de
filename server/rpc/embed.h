// InferenceService.Embed: each input is a request of its own in the batch loop,
// whose rows are pooled as they are computed.
#ifndef HEADRACE_SERVER_RPC_EMBED_H_
#define HEADRACE_SERVER_RPC_EMBED_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "headrace/v1/generation.pb.h"
#include "server/rpc/rpc_context.h"

namespace headrace {

grpc::ServerUnaryReactor* StartEmbed(RpcContext* rpc,
                                     grpc::CallbackServerContext* call,
                                     const v1::EmbedRequest* request,
                                     v1::EmbedResponse* response);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_EMBED_H_
