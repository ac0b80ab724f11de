// From flags to requests. What is wrong is said in the flags' own words before
// anything is sent; what only the server can know is left to it.
#ifndef HEADRACE_CLIENT_CLI_REQUEST_BUILDER_H_
#define HEADRACE_CLIENT_CLI_REQUEST_BUILDER_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/cli_options.h"
#include "headrace/v1/generation.pb.h"

namespace headrace::cli {

// Everything but the capture.
absl::StatusOr<v1::GenerateRequest> BuildGenerateRequest(
    const CliOptions& options);

// --prompt, --prompt_file, --tokens or a positional text: exactly one.
absl::Status SetPrompt(const CliOptions& options, v1::GenerateRequest& request);
absl::Status SetSampling(const SamplingOptions& options,
                         v1::SamplingParams& sampling);
// --rope_scaling and its parameters.
absl::Status SetContextExtension(const RopeOptions& options,
                                 v1::ContextExtension& extension);

// "1,2,3" → ids.
absl::StatusOr<v1::TokenIds> ParseTokens(const std::string& text);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_REQUEST_BUILDER_H_
