// headrace chat: a conversation that keeps its history.
#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "client/cli/command.h"
#include "client/cli/interrupt.h"
#include "client/cli/request_builder.h"

namespace headrace::cli {
namespace {

void AddMessage(v1::Chat& chat, const std::string& role, std::string content) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(role);
  message.set_content(std::move(content));
}

// One answer, printed as it comes.
absl::StatusOr<std::string> Answer(client::Client& client,
                                   const v1::GenerateRequest& request) {
  const auto stream = client.Generate(request);
  const InterruptScope interrupt([&] { stream->Cancel(); });
  std::string answer;
  while (std::optional<v1::GenerateResponse> event = stream->Next()) {
    const std::string& text =
        event->has_token() ? event->token().text() : event->choice_end().text();
    std::cout << text << std::flush;
    answer += text;
  }
  std::cout << "\n" << std::flush;
  const absl::Status status = stream->Finish();
  // An answer that was cut short by Ctrl-C is part of the history.
  if (!status.ok() && !interrupt.interrupted()) return status;
  return answer;
}

}  // namespace

absl::Status RunChat(client::Client& client, const CliOptions& options) {
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  v1::Chat& chat = *request->mutable_chat();
  if (!options.system.empty()) AddMessage(chat, "system", options.system);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::cout << "Ctrl-D ends the conversation.\n";
  std::string line;
  for (;;) {
    if (terminal) std::cout << "> " << std::flush;
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    AddMessage(chat, "user", line);
    absl::StatusOr<std::string> answer = Answer(client, *request);
    if (!answer.ok()) return answer.status();
    AddMessage(chat, "assistant", *std::move(answer));
  }
  if (terminal) std::cout << "\n" << std::flush;
  return absl::OkStatus();
}

}  // namespace headrace::cli
