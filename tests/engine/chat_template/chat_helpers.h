// Rendering in one call, for the tests of chat templates.
#ifndef HEADRACE_TESTS_ENGINE_CHAT_TEMPLATE_CHAT_HELPERS_H_
#define HEADRACE_TESTS_ENGINE_CHAT_TEMPLATE_CHAT_HELPERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/chat_template.h"
#include "nlohmann/json.hpp"

namespace headrace {

using Json = nlohmann::ordered_json;

// [{"role": "user", "content": content}], without a generation prompt.
ChatInput UserSays(std::string content);

// Adds a message.
void Say(ChatInput& input, std::string role, Json content);

// Parses with the tokens <s> and </s>, and renders.
absl::StatusOr<RenderedChat> TryRender(std::string source,
                                       const ChatInput& input);

// The same, of a template that must work: its text.
std::string Render(std::string source, const ChatInput& input);

// The message of the error that parsing or rendering ends with.
std::string ErrorOf(std::string source, const ChatInput& input);
// The same for a template that must not even parse.
std::string ParseErrorOf(std::string source);

// The parts of a rendered chat in which control tokens may be recognised, and
// those in which they may not.
std::vector<std::string> ActiveParts(const RenderedChat& chat);
std::vector<std::string> InertParts(const RenderedChat& chat);

// The text in which control tokens may be recognised, with every other part
// shown as one '_'.
std::string Skeleton(const RenderedChat& chat);

std::string ReadFile(const std::string& path);

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_CHAT_TEMPLATE_CHAT_HELPERS_H_
