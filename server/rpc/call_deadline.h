// A call's deadline in our terms.
#ifndef HEADRACE_SERVER_RPC_CALL_DEADLINE_H_
#define HEADRACE_SERVER_RPC_CALL_DEADLINE_H_

#include <chrono>

#include "absl/time/time.h"
#include "grpcpp/server_context.h"

namespace headrace {

inline absl::Time DeadlineOf(const grpc::CallbackServerContext& call) {
  const std::chrono::system_clock::time_point deadline = call.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_CALL_DEADLINE_H_
