// From a gRPC status, with its google.rpc details, to an absl::Status that
// keeps them.
#ifndef HEADRACE_CLIENT_CPP_INTERNAL_GRPC_STATUS_H_
#define HEADRACE_CLIENT_CPP_INTERNAL_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace headrace::client::internal {

absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace headrace::client::internal

#endif  // HEADRACE_CLIENT_CPP_INTERNAL_GRPC_STATUS_H_
