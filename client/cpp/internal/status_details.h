// Where an absl::Status of this SDK keeps the server's google.rpc.Status.
#ifndef HEADRACE_CLIENT_CPP_INTERNAL_STATUS_DETAILS_H_
#define HEADRACE_CLIENT_CPP_INTERNAL_STATUS_DETAILS_H_

namespace headrace::client::internal {

// Payload: a serialized google.rpc.Status, as grpc-status-details-bin has it.
inline constexpr char kStatusDetailsUrl[] =
    "type.googleapis.com/google.rpc.Status";

}  // namespace headrace::client::internal

#endif  // HEADRACE_CLIENT_CPP_INTERNAL_STATUS_DETAILS_H_
