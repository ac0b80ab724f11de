// What the interface of chat templates promises beside jinja2's behaviour.
#include "engine/tokenizer/chat_template.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/chat_template/chat_helpers.h"

namespace headrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kChatMl[] =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + "
    "m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr char kTrimming[] =
    "{% for m in messages %}[{{ m['content']|trim }}]{% endfor %}";

ChatInput Continued(std::string text) {
  ChatInput input = UserSays("Say A");
  Say(input, "assistant", std::move(text));
  input.continue_final_message = true;
  return input;
}

TEST(ChatTemplateTest, KeepsItsSource) {
  const std::string source = "{{ bos_token }}\r\nx\n";
  auto parsed = ChatTemplate::Parse(source, "<s>", "</s>");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(std::string((*parsed)->source()), source);
}

TEST(ChatTemplateTest, AnEmptyTokenIsUndefined) {
  auto parsed = ChatTemplate::Parse("{{ bos_token is defined }}", "", "");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto chat = (*parsed)->Render(UserSays("x"));
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text(), "False");
}

TEST(ChatTemplateTest, RendersFromManyThreadsAtOnce) {
  auto parsed = ChatTemplate::Parse(kChatMl, "<s>", "</s>");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (int& count : right) {
    threads.emplace_back([&parsed, &count] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(i);
        const auto chat = (*parsed)->Render(UserSays(text));
        if (chat.ok() &&
            chat->text() == "<|im_start|>user\n" + text + "<|im_end|>\n") {
          ++count;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(50));
}

// ggml-org/llama.cpp#25543
TEST(ChatTemplateTest, KeepsNulBytesAndInvalidUtf8) {
  const std::string content("ab\0cd\xff\xc3(\xe2\x82", 10);
  ChatInput input = UserSays(content);
  input.add_generation_prompt = true;

  EXPECT_EQ(Render(kChatMl, input), "<|im_start|>user\n" + content +
                                        "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Render("{{ messages[0].content|upper|trim }}", input).size(),
            content.size());
  EXPECT_EQ(Render("{{ messages[0].content|length }}", input), "10");
}

TEST(ChatTemplateTest, TheTemplatesRefusalKeepsItsWords) {
  const std::string error = ErrorOf(
      "\n{{ raise_exception('System role not supported') }}", UserSays("x"));
  EXPECT_THAT(error, HasSubstr("refuses: System role not supported"));
  EXPECT_THAT(error, Not(HasSubstr("line")));
}

TEST(ChatTemplateTest, ErrorsNameTheLineAndWhatIsUndefined) {
  const ChatInput input = UserSays("x");
  EXPECT_THAT(ErrorOf("a\n\n{{ nowhere.x }}", input),
              HasSubstr("line 3: 'nowhere' is undefined"));
  EXPECT_THAT(ErrorOf("{% if true %}\n{{ messages[0].tone + '!' }}"
                      "{% endif %}",
                      input),
              HasSubstr("line 2: 'dict object' has no attribute 'tone'"));
  EXPECT_THAT(ErrorOf("{% macro f() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n"
                      "{{ f() }}",
                      input),
              HasSubstr("line 2: unsupported operand types for +: int and "
                        "str"));
}

TEST(ChatTemplateTest, WhatIsNotSupportedIsAnErrorOfParsingThatNamesIt) {
  for (const auto& [source, words] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"\n{% include 'a' %}", "line 2: the tag {% include %}"},
           {"{% extends 'a' %}", "{% extends %}"},
           {"{% import 'a' as b %}", "{% import %}"},
           {"{% from 'a' import b %}", "{% from %}"},
           {"{% block a %}{% endblock %}", "{% block %}"},
           {"{% autoescape true %}{% endautoescape %}", "{% autoescape %}"},
           {"{% trans %}{% endtrans %}", "{% trans %}"},
           {"{% do x %}", "{% do %}"},
           {"{% if false %}\n{{ x|frobnicate }}{% endif %}",
            "line 2: the filter 'frobnicate'"},
           {"{{ x|urlize }}", "the filter 'urlize'"},
           {"{{ x is frobnicated }}", "the test 'frobnicated'"},
           {"{{ x|map('frobnicate')|list }}", "the filter 'frobnicate'"},
           {"{{ x|selectattr('a', 'frobnicated') }}", "the test 'frobnicated'"},
           {"{{ frobnicate(1) }}", "the function frobnicate()"},
           {"{{ lipsum() }}", "the function lipsum()"},
           {"{{ x.frobnicate() }}", "the method frobnicate()"},
           {"{{ x.append(1) }}", "the method append()"},
           {"{{ '{}'.format(1) }}", "the method format()"},
           {"{{ x.__class__ }}", "the attribute '__class__'"},
           {"{{ 99999999999999999999 }}", "99999999999999999999"},
           {"{{ '\\N{BULLET}' }}", "\\N"},
           {"{{ '\\ud83d' }}", "U+D83D"},
       }) {
    EXPECT_THAT(ParseErrorOf(source), HasSubstr(words)) << source;
  }
}

TEST(ChatTemplateTest, HiddenAttributesAndMutationAreRefused) {
  const ChatInput input = UserSays("x");
  for (const char* source :
       {"{{ ''['__class__'] }}", "{{ ''|attr('__class__') }}",
        "{{ messages['__class__'] }}", "{{ messages[0]['__init__'] }}",
        "{{ [messages]|map(attribute='__class__')|list }}",
        "{{ messages[0].update }}", "{{ messages['append'] }}",
        "{% set n = namespace(_x=1) %}{{ n._x }}", "{{ ''._x }}"}) {
    EXPECT_THAT(ErrorOf(source, input),
                testing::AnyOf(HasSubstr("refused"), HasSubstr("may not")))
        << source;
  }
}

TEST(ChatTemplateTest, TheClockIsTheRequests) {
  ChatInput input = UserSays("x");
  input.local_time = absl::CivilSecond(2025, 12, 31, 23, 59, 58);
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y %H:%M:%S %j %a') }}", input),
            "31 Dec 2025 23:59:58 365 Wed");
  input.local_time.reset();
  EXPECT_GE(std::stoi(Render("{{ strftime_now('%Y') }}", input)), 2024);
  EXPECT_THAT(ErrorOf("{{ strftime_now('%Q') }}", input), HasSubstr("%Q"));
}

TEST(ChatTemplateTest, WrongInputIsNamed) {
  ChatInput input;
  EXPECT_THAT(ErrorOf("x", input), HasSubstr("messages is not a list"));
  input.messages = Json::array({Json::object(), 5});
  EXPECT_THAT(ErrorOf("x", input), HasSubstr("messages[1] is not an object"));
  input = UserSays("x");
  input.tools = Json::object();
  EXPECT_THAT(ErrorOf("x", input), HasSubstr("tools is not a list"));
  input = UserSays("x");
  input.template_kwargs = Json::array();
  EXPECT_THAT(ErrorOf("x", input), HasSubstr("template_kwargs"));
  input.template_kwargs = {{"messages", 1}};
  EXPECT_THAT(ErrorOf("x", input), HasSubstr("template_kwargs.messages"));
  input.template_kwargs = {{"big", 18446744073709551615U}};
  EXPECT_THAT(ErrorOf("{{ big }}", input), HasSubstr("18446744073709551615"));
}

// vllm-project/vllm#8942, theroyallab/tabbyAPI#431
TEST(ChatTemplateTest, AContinuedMessageEndsThePrompt) {
  EXPECT_EQ(Render(kChatMl, Continued("The answer is")),
            "<|im_start|>user\nSay A<|im_end|>\n"
            "<|im_start|>assistant\nThe answer is");
  EXPECT_EQ(Render(kChatMl, Continued("The answer is  \n")),
            "<|im_start|>user\nSay A<|im_end|>\n"
            "<|im_start|>assistant\nThe answer is  \n");
  EXPECT_EQ(Render(kChatMl, Continued("")),
            "<|im_start|>user\nSay A<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Render(kTrimming, Continued(" The answer is ")),
            "[Say A][The answer is");
}

TEST(ChatTemplateTest, WithoutContinuationTheLastTurnIsClosed) {
  ChatInput input = Continued("The answer is");
  input.continue_final_message = false;
  input.add_generation_prompt = true;
  EXPECT_THAT(Render(kChatMl, input),
              testing::EndsWith("The answer is<|im_end|>\n"
                                "<|im_start|>assistant\n"));
}

TEST(ChatTemplateTest, AMessageMayContainTheContinuationsOwnTag) {
  const std::string text = "CONTINUE_FINAL_MESSAGE_TAG and on";
  EXPECT_THAT(Render(kChatMl, Continued(text)), testing::EndsWith(text));
}

TEST(ChatTemplateTest, ContinuationsThatCannotBeAreRefused) {
  ChatInput both = Continued("x");
  both.add_generation_prompt = true;
  EXPECT_THAT(ErrorOf(kChatMl, both), HasSubstr("add_generation_prompt"));

  ChatInput user_last = UserSays("x");
  user_last.continue_final_message = true;
  EXPECT_THAT(ErrorOf(kChatMl, user_last), HasSubstr("assistant"));

  ChatInput empty = UserSays("x");
  empty.messages = Json::array();
  empty.continue_final_message = true;
  EXPECT_THAT(ErrorOf(kChatMl, empty), HasSubstr("assistant"));

  ChatInput no_text = Continued("x");
  no_text.messages[1]["content"] = nullptr;
  EXPECT_THAT(ErrorOf(kChatMl, no_text), HasSubstr("needs text"));

  EXPECT_THAT(ErrorOf("{{ messages[0].content }}", Continued("x")),
              HasSubstr("cannot be continued"));
}

TEST(ChatTemplateTest, ContinuesTheLastPartThatHasText) {
  ChatInput input = Continued("");
  input.messages[1]["content"] = Json::parse(
      R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b "},
          {"type": "image"}])");
  EXPECT_EQ(Render("{% for p in messages[1].content %}<{{ p.text }}>"
                   "{% endfor %}",
                   input),
            "<a><b ");
}

}  // namespace
}  // namespace headrace
