// What a client is told about a message that does not parse.
//
// gRPC's callback API answers such a call with UNIMPLEMENTED and no text, as if
// the method did not exist, and Protobuf writes one line of log for each.
#ifndef HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_
#define HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_

#include <memory>
#include <string_view>

#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"

namespace headrace {

// Makes the answer MalformedRequest(). Takes Protobuf's log of the process
// over. Our own streams are left alone and call that themselves: an interceptor
// sends each of their responses through gRPC's queue twice.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
ExplainMalformedRequests();

// INVALID_ARGUMENT, naming the string that is not UTF-8 when it is that. For
// the thread that has just failed to parse a message for "/package.Service/…".
grpc::Status MalformedRequest(std::string_view method);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_
