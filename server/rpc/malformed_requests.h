// What a client is told about a message that does not parse.
//
// gRPC's callback API answers such a call with UNIMPLEMENTED and no text, as if
// the method did not exist, and Protobuf writes one line of log for each.
#ifndef HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_
#define HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_

#include <memory>

#include "grpcpp/support/server_interceptor.h"

namespace headrace {

// Makes the answer INVALID_ARGUMENT, naming the string that is not UTF-8 when
// it is that. Takes Protobuf's log of the process over.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
ExplainMalformedRequests();

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_MALFORMED_REQUESTS_H_
