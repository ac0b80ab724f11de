// headrace estimate: what a trace would produce, before running it.
#include <iostream>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/cli/capture_builder.h"
#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/request_builder.h"

namespace headrace::cli {

absl::Status RunEstimate(client::Client& client, const CliOptions& options) {
  v1::EstimateCaptureRequest estimate;
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  *estimate.mutable_request() = *std::move(request);
  if (absl::Status status = SetPrompt(options, *estimate.mutable_request());
      !status.ok()) {
    return status;
  }
  const auto hooks = client.ListHookPoints(options.model);
  if (!hooks.ok()) return hooks.status();
  if (absl::Status status =
          SetCapture(options.capture, *hooks,
                     *estimate.mutable_request()->mutable_capture());
      !status.ok()) {
    return status;
  }
  const auto response = client.EstimateCapture(estimate);
  if (!response.ok()) return response.status();
  if (options.json) return PrintJsonLine(*response);
  std::cout << absl::StrFormat(
      "prompt tokens   %d\nprompt rows     %d\ngenerated rows  at most %d\n"
      "bytes           at most %d\nmessages        at most %d\n",
      response->prompt_token_count(), response->prompt_rows(),
      response->generated_rows_max(), response->bytes_max(),
      response->messages_max());
  return absl::OkStatus();
}

}  // namespace headrace::cli
