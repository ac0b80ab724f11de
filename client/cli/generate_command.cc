// headrace generate: text as it comes, or events as JSON lines.
#include <iostream>
#include <optional>
#include <utility>

#include "client/cli/command.h"
#include "client/cli/interrupt.h"
#include "client/cli/json_output.h"
#include "client/cli/request_builder.h"

namespace headrace::cli {
namespace {

// Text of one event; choices beyond the first are not mixed into it.
void PrintText(const v1::GenerateResponse& event) {
  if (event.has_token() && event.token().choice() == 0) {
    std::cout << event.token().text() << std::flush;
  }
  if (event.has_choice_end() && event.choice_end().choice() == 0) {
    std::cout << event.choice_end().text() << std::flush;
  }
}

}  // namespace

absl::Status RunGenerate(client::Client& client, const CliOptions& options) {
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  if (absl::Status status = SetPrompt(options, *request); !status.ok()) {
    return status;
  }
  const auto stream = client.Generate(*request);
  const InterruptScope interrupt([&] { stream->Cancel(); });
  bool any = false;
  while (std::optional<v1::GenerateResponse> event = stream->Next()) {
    any = true;
    if (options.json) {
      if (absl::Status status = PrintJsonLine(*event); !status.ok()) {
        return status;
      }
    } else {
      PrintText(*event);
    }
    if (!std::cout) return absl::OkStatus();  // the reader has gone
  }
  absl::Status status = stream->Finish();
  if (!options.json && (status.ok() || any)) std::cout << "\n" << std::flush;
  return status;
}

}  // namespace headrace::cli
