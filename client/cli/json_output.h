// Messages as JSON, one per line: field names as in the .proto files, 64-bit
// numbers as strings, bytes as base64.
#ifndef HEADRACE_CLIENT_CLI_JSON_OUTPUT_H_
#define HEADRACE_CLIENT_CLI_JSON_OUTPUT_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace headrace::cli {

absl::Status PrintJsonLine(const google::protobuf::Message& message);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_JSON_OUTPUT_H_
