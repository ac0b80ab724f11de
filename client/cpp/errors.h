// What a failed call says beside its code and message: the fields that were
// wrong, and when to try again.
#ifndef HEADRACE_CLIENT_CPP_ERRORS_H_
#define HEADRACE_CLIENT_CPP_ERRORS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace headrace::client {

struct FieldError {
  std::string field;  // "sampling.top_p"
  std::string description;
};

// Every field that the server named; empty when it named none.
std::vector<FieldError> FieldErrors(const absl::Status& status);
// The server's own estimate; nullopt when it gave none.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);
// Code, message and fields, one per line, for people.
std::string Describe(const absl::Status& status);

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_ERRORS_H_
