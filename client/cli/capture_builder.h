// --hooks, --layers, --rows and --dtype as a CaptureSpec.
#ifndef HEADRACE_CLIENT_CLI_CAPTURE_BUILDER_H_
#define HEADRACE_CLIENT_CLI_CAPTURE_BUILDER_H_

#include "absl/status/status.h"
#include "client/cli/cli_options.h"
#include "headrace/v1/activations.pb.h"
#include "headrace/v1/models.pb.h"

namespace headrace::cli {

// `hooks` is the server's list: names are looked up in it.
//   layers: "all", or a list of numbers and half-open ranges: "0,-1,4:8"
//   rows: "all", "prompt", "generated", "last" (of the prompt), or a list of
//         positions and half-open windows of the prompt and what follows:
//         "0,7,-1", "0:64"
absl::Status SetCapture(const CaptureOptions& options,
                        const v1::ListHookPointsResponse& hooks,
                        v1::CaptureSpec& capture);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_CAPTURE_BUILDER_H_
