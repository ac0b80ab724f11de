// The one place where an absl::Status becomes a grpc::Status.
#ifndef HEADRACE_SERVER_RPC_STATUS_H_
#define HEADRACE_SERVER_RPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace headrace {

// Code, message and google.rpc details.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_STATUS_H_
