// Rich errors as google.rpc has them: details ride in an absl::Status as
// payloads and leave in a google.rpc.Status.
#ifndef HEADRACE_SERVER_CONVERT_ERROR_DETAILS_H_
#define HEADRACE_SERVER_CONVERT_ERROR_DETAILS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"

namespace headrace {

// Attaches a google.rpc detail (BadRequest, ResourceInfo, QuotaFailure, …).
absl::Status WithDetail(absl::Status status,
                        const google::protobuf::Message& detail);

// Code, message and every detail; a retry delay of the batch loop becomes
// google.rpc.RetryInfo. The text is valid UTF-8 whatever the message held.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// NOT_FOUND with a google.rpc.ResourceInfo.
absl::Status ResourceNotFound(std::string_view type, std::string_view name,
                              std::string message);

// `status` with a google.rpc.QuotaFailure of `subject`, described by its
// message.
absl::Status QuotaExceeded(const absl::Status& status,
                           std::string_view subject);

// At most `max_bytes` of `text`, cut between characters and marked with "…";
// always valid UTF-8.
std::string Shortened(std::string_view text, size_t max_bytes);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_ERROR_DETAILS_H_
