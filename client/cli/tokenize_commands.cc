// headrace tokenize and detokenize.
#include <iostream>
#include <utility>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/request_builder.h"

namespace headrace::cli {

absl::Status RunTokenize(client::Client& client, const CliOptions& options) {
  v1::GenerateRequest prompt;
  if (absl::Status status = SetPrompt(options, prompt); !status.ok()) {
    return status;
  }
  v1::TokenizeRequest request;
  request.set_model(options.model);
  request.add_texts(prompt.text());
  request.set_parse_special(prompt.parse_special());
  if (prompt.has_add_special_tokens()) {
    request.set_add_special_tokens(prompt.add_special_tokens());
  }
  const auto response = client.Tokenize(request);
  if (!response.ok()) return response.status();
  if (options.json) return PrintJsonLine(*response);
  const char* separator = "";
  for (const uint32_t id : response->results(0).ids()) {
    std::cout << separator << id;
    separator = ",";
  }
  std::cout << "\n" << std::flush;
  return absl::OkStatus();
}

absl::Status RunDetokenize(client::Client& client, const CliOptions& options) {
  const std::string text =
      options.prompt.tokens.empty()
          ? (options.positional.empty() ? std::string()
                                        : options.positional.front())
          : options.prompt.tokens;
  absl::StatusOr<v1::TokenIds> ids = ParseTokens(text);
  if (!ids.ok()) return ids.status();
  v1::DetokenizeRequest request;
  request.set_model(options.model);
  *request.mutable_ids() = std::move(*ids->mutable_ids());
  const auto response = client.Detokenize(request);
  if (!response.ok()) return response.status();
  if (options.json) return PrintJsonLine(*response);
  std::cout << response->data() << "\n" << std::flush;
  return absl::OkStatus();
}

}  // namespace headrace::cli
