#include "client/cpp/internal/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "client/cpp/internal/status_details.h"

namespace headrace::client::internal {

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // gRPC's codes are absl's, number by number.
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()),
                   status.error_message());
  if (!status.error_details().empty()) {
    out.SetPayload(kStatusDetailsUrl, absl::Cord(status.error_details()));
  }
  return out;
}

}  // namespace headrace::client::internal
