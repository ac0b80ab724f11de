#include "server/convert/chat.h"

#include <ctime>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/convert/tokenize.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTemplate[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ChatTest : public ConvertFixture {
 protected:
  void SetUp() override { UseEngine({.chat_template = kTemplate}); }

  static v1::ApplyChatTemplateRequest Chat(
      std::vector<std::pair<std::string, std::string>> messages) {
    v1::ApplyChatTemplateRequest proto;
    for (const auto& [role, content] : messages) {
      v1::ChatMessage& message = *proto.mutable_chat()->add_messages();
      message.set_role(role);
      message.set_content(content);
    }
    return proto;
  }

  v1::ApplyChatTemplateResponse Apply(
      const v1::ApplyChatTemplateRequest& proto) {
    const auto response = HandleApplyChatTemplate(proto, context_);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::ApplyChatTemplateResponse();
  }

  absl::Status Refusal(const v1::ApplyChatTemplateRequest& proto) {
    return HandleApplyChatTemplate(proto, context_).status();
  }
};

TEST_F(ChatTest, OpensTheAssistantsTurn) {
  EXPECT_EQ(Apply(Chat({{"user", "hi"}})).text(),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(ChatTest, MessageTextNeverBecomesControlTokens) {
  const auto response = Apply(Chat({{"user", "<|im_end|>"}}));

  int ends = 0;
  for (const uint32_t id : response.ids()) ends += id == kFakeImEnd ? 1 : 0;
  EXPECT_EQ(ends, 1) << "the template's own";
}

// Continued after a closed turn, or never (vllm-project/vllm#8942).
TEST_F(ChatTest, AFinalMessageIsContinuedWhenAskedFor) {
  auto proto = Chat({{"user", "Say A"}, {"assistant", "The answer is "}});
  EXPECT_THAT(Apply(proto).text(),
              HasSubstr("is <|im_end|>\n<|im_start|>assistant\n"));
  proto.mutable_chat()->set_continue_final_message(true);
  EXPECT_TRUE(Apply(proto).text().ends_with("The answer is "));
  proto.mutable_chat()->set_add_generation_prompt(true);
  EXPECT_THAT(FieldsOf(Refusal(proto)),
              ElementsAre("chat.continue_final_message"));
}

TEST_F(ChatTest, OnlyTheAssistantIsContinued) {
  auto proto = Chat({{"user", "Say A"}});
  proto.mutable_chat()->set_continue_final_message(true);

  EXPECT_THAT(ViolationsOf(Refusal(proto)),
              ElementsAre(HasSubstr("it is \"user\"")));
}

TEST_F(ChatTest, RolesAreWords) {
  EXPECT_THAT(FieldsOf(Refusal(Chat({{"user", "a"}, {"User", "b"}, {"", ""}}))),
              ElementsAre("chat.messages[1].role", "chat.messages[2].role"));
}

// The template's own refusal comes back as an internal error
// (janhq/jan#6254).
TEST_F(ChatTest, ARefusalHasTheTemplatesWords) {
  auto proto = Chat({{"system", "be brief"}});
  proto.mutable_chat()->set_template_(
      "{{ raise_exception('System role not supported') }}");

  EXPECT_THAT(ViolationsOf(Refusal(proto)),
              ElementsAre(HasSubstr("System role not supported")));
}

TEST_F(ChatTest, ABrokenTemplateIsNamed) {
  auto proto = Chat({{"user", "a"}});
  proto.mutable_chat()->set_template_("{% for %}");

  EXPECT_THAT(FieldsOf(Refusal(proto)), ElementsAre("chat.template"));
}

TEST_F(ChatTest, JsonFieldsAreChecked) {
  auto proto = Chat({{"user", "a"}});
  proto.mutable_chat()->set_tools_json("{}");
  proto.mutable_chat()->set_template_kwargs_json("[");
  proto.mutable_chat()->mutable_messages(0)->set_tool_calls_json(
      std::string(100, '[') + std::string(100, ']'));

  EXPECT_THAT(
      ViolationsOf(Refusal(proto)),
      ElementsAre(AllOf(HasSubstr("tool_calls_json: must be a JSON array"),
                        HasSubstr("deeper than 64")),
                  "chat.tools_json: must be a JSON array; is of type object",
                  HasSubstr("kwargs_json: must be a JSON object")));
}

TEST_F(ChatTest, ToolsAndVariablesReachTheTemplate) {
  auto proto = Chat({{"user", "a"}});
  proto.mutable_chat()->set_template_("{{ tools[0].name }} {{ mood }}");
  proto.mutable_chat()->set_tools_json(R"([{"name": "search"}])");
  proto.mutable_chat()->set_template_kwargs_json(R"({"mood": "good"})");

  EXPECT_EQ(Apply(proto).text(), "search good");
}

// Parsers that look at a value's siblings or at an object's keys for each value
// take minutes for what fits into one message.
TEST_F(ChatTest, JsonOfManyValuesTakesLinearTime) {
  auto proto = Chat({{"user", "a"}});
  std::string tools = "[{}";
  std::string variables = "{\"k\": 0";
  for (int i = 0; i < 150'000; ++i) {
    tools += ",{}";
    variables += ",\"k" + std::to_string(i) + "\": " + std::to_string(i);
  }
  proto.mutable_chat()->set_template_("{{ tools|length }} {{ k149999 }}");
  proto.mutable_chat()->set_tools_json(tools + "]");
  proto.mutable_chat()->set_template_kwargs_json(variables + "}");

  const std::clock_t start = std::clock();

  EXPECT_EQ(Apply(proto).text(), "150001 149999");
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10);
}

TEST_F(ChatTest, AModelWithoutATemplateSaysSo) {
  UseEngine({});

  EXPECT_THAT(FieldsOf(Refusal(Chat({{"user", "a"}}))),
              ElementsAre("chat.template"));
}

}  // namespace
}  // namespace headrace
