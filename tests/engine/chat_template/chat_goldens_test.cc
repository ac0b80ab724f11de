// Every case of chat_goldens.json renders, byte for byte, what jinja2 rendered
// when it is set up as transformers sets it up, or is refused where jinja2
// refused. The file is written by tests/golden/chat_template.
#include <string>

#include "engine/tokenizer/chat_template.h"
#include "gtest/gtest.h"
#include "tests/engine/chat_template/chat_helpers.h"

namespace headrace {
namespace {

constexpr char kFolder[] = HEADRACE_SOURCE_DIR "/tests/golden/chat_template/";

const Json& Goldens() {
  static const auto* const kGoldens =
      new Json(Json::parse(ReadFile(std::string(kFolder) + "chat_goldens.json"),
                           nullptr, /*allow_exceptions=*/false));
  return *kGoldens;
}

// The clock of the script.
constexpr absl::CivilSecond kNow(2024, 7, 5, 9, 3, 7);

void ExpectWant(const Json& golden, const std::string& source,
                const ChatInput& input) {
  const absl::StatusOr<RenderedChat> chat = TryRender(source, input);
  if (golden["want"].is_null()) {
    EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument)
        << (chat.ok() ? chat->text() : chat.status().ToString());
    return;
  }
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text(), golden["want"].get<std::string>());
}

TEST(ChatGoldensTest, FileIsThere) {
  EXPECT_GT(Goldens()["families"].size(), 400);
  EXPECT_GT(Goldens()["lines"].size(), 800);
}

TEST(ChatGoldensTest, ModelFamiliesRenderAsJinja2DoesForEveryConversation) {
  for (const Json& golden : Goldens()["families"]) {
    const std::string name = golden["template"].get<std::string>();
    SCOPED_TRACE(golden.dump());
    ChatInput input;
    input.messages =
        golden.contains("messages")
            ? golden["messages"]
            : Goldens()["conversations"][golden["name"].get<std::string>()];
    if (golden.contains("tools")) input.tools = Goldens()["tools"];
    if (golden.contains("kwargs")) input.template_kwargs = Goldens()["kwargs"];
    input.add_generation_prompt = golden.value("prompt", true);
    input.continue_final_message = golden.value("continue", false);
    input.local_time = kNow;
    ExpectWant(golden,
               ReadFile(std::string(kFolder) + "templates/" + name + ".jinja"),
               input);
  }
}

TEST(ChatGoldensTest, SingleConstructsRenderAsJinja2Does) {
  for (const Json& golden : Goldens()["lines"]) {
    const std::string source = golden["source"].get<std::string>();
    SCOPED_TRACE(source);
    ChatInput input;
    input.messages = Goldens()["line_messages"];
    if (golden.contains("text")) {
      input.messages = UserSays(golden["text"].get<std::string>()).messages;
    }
    input.template_kwargs = Goldens()["line_kwargs"];
    input.local_time = kNow;
    ExpectWant(golden, source, input);
  }
}

}  // namespace
}  // namespace headrace
