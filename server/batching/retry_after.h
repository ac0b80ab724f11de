// When a client may try again, carried in an absl::Status: the edge turns it
// into google.rpc.RetryInfo.
#ifndef HEADRACE_SERVER_BATCHING_RETRY_AFTER_H_
#define HEADRACE_SERVER_BATCHING_RETRY_AFTER_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace headrace {

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);

// Nullopt when the status carries none.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_RETRY_AFTER_H_
