#include "server/convert/chat.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/json_document.h"
#include "nlohmann/json.hpp"

namespace headrace {

namespace {

using Json = nlohmann::ordered_json;

bool IsRole(const std::string& role) {
  return !role.empty() && std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
}

// Parses `text`, which must be of type `wanted` ("array", "object"); null
// after a violation or when it is empty.
Json ParseField(const std::string& text, const std::string& wanted,
                const std::string& field, Violations& violations) {
  if (text.empty()) return nullptr;
  std::vector<std::string> warnings;  // of keys that are there twice: harmless
  absl::StatusOr<Json> json = ParseJson(text, "the text", warnings);
  if (!json.ok()) {
    violations.Add(field, absl::StrCat("must be a JSON ", wanted, "; ",
                                       json.status().message()));
    return nullptr;
  }
  if (json->type_name() != wanted) {
    violations.Add(field, absl::StrCat("must be a JSON ", wanted,
                                       "; is of type ", json->type_name()));
    return nullptr;
  }
  return *std::move(json);
}

Json ToMessage(const v1::ChatMessage& message, const std::string& field,
               Violations& violations) {
  if (!IsRole(message.role())) {
    violations.Add(field + ".role",
                   "must match [a-z_]+; is \"" + message.role() + "\"");
  }
  Json json = {{"role", message.role()}, {"content", message.content()}};
  if (!message.name().empty()) json["name"] = message.name();
  if (!message.tool_calls_json().empty()) {
    json["tool_calls"] = ParseField(message.tool_calls_json(), "array",
                                    field + ".tool_calls_json", violations);
  }
  if (!message.tool_call_id().empty()) {
    json["tool_call_id"] = message.tool_call_id();
  }
  return json;
}

void CheckContinuation(const v1::Chat& chat, Violations& violations) {
  if (chat.has_add_generation_prompt() && chat.add_generation_prompt()) {
    violations.Add("chat.continue_final_message",
                   "cannot be set together with add_generation_prompt");
  }
  if (chat.messages().empty()) return;
  const std::string& role = chat.messages().rbegin()->role();
  if (role != "assistant") {
    violations.Add(
        "chat.continue_final_message",
        "needs a last message of role \"assistant\"; it is \"" + role + "\"");
  }
}

}  // namespace

ChatInput ToChatInput(const v1::Chat& chat, Violations& violations) {
  ChatInput input;
  input.messages = Json::array();
  for (int i = 0; i < chat.messages_size(); ++i) {
    input.messages.push_back(
        ToMessage(chat.messages(i), Indexed("chat.messages", i), violations));
  }
  input.tools =
      ParseField(chat.tools_json(), "array", "chat.tools_json", violations);
  input.template_kwargs = ParseField(chat.template_kwargs_json(), "object",
                                     "chat.template_kwargs_json", violations);
  if (input.template_kwargs.is_null()) input.template_kwargs = Json::object();
  input.continue_final_message = chat.continue_final_message();
  if (chat.continue_final_message()) {
    CheckContinuation(chat, violations);
    input.add_generation_prompt = false;
  } else if (chat.has_add_generation_prompt()) {
    input.add_generation_prompt = chat.add_generation_prompt();
  }
  return input;
}

}  // namespace headrace
