// Files that are named on the command line.
#ifndef HEADRACE_CLIENT_CLI_TEXT_FILE_H_
#define HEADRACE_CLIENT_CLI_TEXT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace headrace::cli {

// All of a file, or of a pipe. Errors: NOT_FOUND naming the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_TEXT_FILE_H_
