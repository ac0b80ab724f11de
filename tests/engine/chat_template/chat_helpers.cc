#include "tests/engine/chat_template/chat_helpers.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "engine/base/status_macros.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

std::vector<std::string> PartsThat(const RenderedChat& chat, bool are_active) {
  std::vector<std::string> parts;
  for (const TextSegment& segment : chat.segments) {
    if (segment.parse_special == are_active) parts.push_back(segment.text);
  }
  return parts;
}

}  // namespace

ChatInput UserSays(std::string content) {
  ChatInput input;
  input.messages = Json::array();
  Say(input, "user", std::move(content));
  input.add_generation_prompt = false;
  return input;
}

void Say(ChatInput& input, std::string role, Json content) {
  input.messages.push_back(
      {{"role", std::move(role)}, {"content", std::move(content)}});
}

absl::StatusOr<RenderedChat> TryRender(std::string source,
                                       const ChatInput& input) {
  auto parsed = ChatTemplate::Parse(std::move(source), "<s>", "</s>");
  RETURN_IF_ERROR(parsed.status());
  return (*parsed)->Render(input);
}

std::string Render(std::string source, const ChatInput& input) {
  const absl::StatusOr<RenderedChat> chat = TryRender(std::move(source), input);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return chat.ok() ? chat->text() : std::string();
}

std::string ErrorOf(std::string source, const ChatInput& input) {
  const absl::Status status = TryRender(std::move(source), input).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

std::string ParseErrorOf(std::string source) {
  const absl::Status status =
      ChatTemplate::Parse(std::move(source), "<s>", "</s>").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

std::vector<std::string> ActiveParts(const RenderedChat& chat) {
  return PartsThat(chat, /*are_active=*/true);
}

std::vector<std::string> InertParts(const RenderedChat& chat) {
  return PartsThat(chat, /*are_active=*/false);
}

std::string Skeleton(const RenderedChat& chat) {
  std::string skeleton;
  for (const TextSegment& segment : chat.segments) {
    skeleton += segment.parse_special ? segment.text : "_";
  }
  return skeleton;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

}  // namespace headrace
