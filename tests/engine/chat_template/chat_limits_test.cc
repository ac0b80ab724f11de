// A template is a program of someone else's: it cannot use up the machine.
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/chat_template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/chat_template/chat_helpers.h"

namespace headrace {
namespace {

using testing::HasSubstr;

std::string Repeated(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

TEST(ChatLimitsTest, AHugeRangeIsRefusedAtOnce) {
  EXPECT_THAT(
      ErrorOf("{% for i in range(1000000000) %}{% endfor %}", UserSays("x")),
      HasSubstr("range() of 1000000000 numbers"));
  EXPECT_THAT(ErrorOf("{{ range(-9223372036854775807, 9223372036854775807) }}",
                      UserSays("x")),
              HasSubstr("range()"));
}

TEST(ChatLimitsTest, EndlessWorkEnds) {
  const ChatInput input = UserSays(Repeated("ab ", 100'000));
  for (const char* body : {
           "{% for j in range(99999) %}{% endfor %}",
           "{% for j in range(99999) if j < 0 %}{% endfor %}",
           "{{ c|upper|length }}",
           "{% if 'b' * 9999 in c %}{% endif %}",
           "{% set x = c.rfind('ab ab ab ba') %}",
           "{% set x = c.count('a') %}",
           "{% set x = c[i] %}",
           "{% set x = c.split() %}",
           "{% set x = c.splitlines() %}",
           "{% if c == c ~ '' %}{% endif %}",
           "{% set x = range(99999)|list %}",
           "{% set x = range(99999)|sort %}",
           "{% set x = c.strip(c) %}",
       }) {
    EXPECT_THAT(ErrorOf(std::string("{% set c = messages[0].content %}"
                                    "{% for i in range(99999) %}") +
                            body + "{% endfor %}",
                        input),
                HasSubstr("steps"))
        << body;
  }
  for (const char* source : {
           "{{ (range(99999)|list * 1000)|length }}",
           "{{ ([1] * 9223372036854775807)|length }}",
           "{{ range(99999)|unique|list|length }}",
           "{{ messages[0].content|list|length }}",
           "{{ (messages[0].content * 10).split(' ')|length }}",
           "{{ [1]|batch(9999999, 0)|list|length }}",
           "{{ [1]|slice(9999999)|list|length }}",
       }) {
    EXPECT_THAT(ErrorOf(source, input), HasSubstr("steps")) << source;
  }
}

TEST(ChatLimitsTest, TextsAreBounded) {
  const ChatInput input = UserSays(Repeated("x", 1 << 20));
  for (const char* source : {
           "{{ 'x' * 9999999999 }}",
           "{{ ('x' * 4000000) * 9223372036854775807 }}",
           "{{ messages[0].content * 5 }}",
           "{{ ''|center(99999999) }}",
           "{{ 'x'.ljust(9223372036854775807) }}",
           "{{ '1'.zfill(99999999) }}",
           "{{ '%99999999d' % 1 }}",
           "{{ '%.99999999f' % 1 }}",
           "{{ messages[0].content|replace('x', 'yyyyyy')|length }}",
           "{{ messages[0].content.replace('', 'yyyyy')|length }}",
           "{{ messages[0].content|indent(99999999) }}",
           "{{ ([messages[0].content] * 6)|join|length }}",
           "{{ ([messages[0].content] * 6)|tojson|length }}",
           "{{ ([messages[0].content] * 6)|string|length }}",
           "{{ [[[[1]]]]|tojson(indent=9999999) }}",
           "{{ [1, 2]|tojson(indent='x' * 4000000) }}",
           "{% for i in range(6) %}{{ messages[0].content }}{% endfor %}",
           "{% set x %}{% for i in range(6) %}{{ messages[0].content }}"
           "{% endfor %}{% endset %}",
           "{% set ns = namespace(x='xx') %}{% for i in range(99) %}"
           "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
       }) {
    EXPECT_FALSE(TryRender(source, input).ok()) << source;
  }
}

TEST(ChatLimitsTest, NestingIsBounded) {
  const ChatInput input = UserSays("x");
  for (const std::string& source : std::vector<std::string>{
           Repeated("{% if 1 %}", 5000) + Repeated("{% endif %}", 5000),
           "{{ " + Repeated("(", 5000) + "1" + Repeated(")", 5000) + " }}",
           "{{ " + Repeated("[", 5000) + Repeated("]", 5000) + " }}",
           "{{ " + Repeated("not ", 5000) + "1 }}",
           "{{ " + Repeated("-", 5000) + "1 }}",
           "{{ 1" + Repeated(" + 1", 5000) + " }}",
           "{{ x" + Repeated(".x", 5000) + " }}",
           "{{ x" + Repeated("|string", 5000) + " }}",
           "{{ 1" + Repeated(" if 1 else 1", 5000) + " }}",
           "{{ x" + Repeated("[x", 5000) + Repeated("]", 5000) + " }}",
           "{% for " + Repeated("(", 5000) + "a" + Repeated(")", 5000) +
               " in x %}{% endfor %}",
       }) {
    EXPECT_THAT(ParseErrorOf(source),
                testing::AnyOf(HasSubstr("100 deep"), HasSubstr("200 levels")))
        << source.substr(0, 80);
  }
  for (const char* source : {
           "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
           "{% macro f(n=f()) %}{% endmacro %}{{ f() }}",
           "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{% set ns = namespace(x=[]) %}{% for i in range(999) %}"
           "{% set ns.x = [ns.x] %}{% endfor %}",
           "{% set ns = namespace(x={}) %}{% for i in range(999) %}"
           "{% set ns.x = {'a': ns.x}.items %}{% endfor %}",
           // Few values that share their parts look like very many.
           "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}"
           "{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
       }) {
    EXPECT_FALSE(TryRender(source, input).ok()) << source;
  }

  Json deep = Json::array();
  for (int i = 0; i < 500; ++i) deep = Json::array({std::move(deep)});
  ChatInput nested = UserSays("x");
  nested.template_kwargs = {{"deep", std::move(deep)}};
  EXPECT_THAT(ErrorOf("{{ deep }}", nested), HasSubstr("nested"));
}

// Undefined behaviour in here shows under the sanitizers.
TEST(ChatLimitsTest, ExtremeIntegersAreAnswered) {
  const ChatInput input = UserSays("x");
  for (const char* extreme : {"9223372036854775807", "lowest"}) {
    for (const char* use : {
             "-n",
             "n|abs",
             "n + n",
             "n - 1",
             "n * n",
             "n // -1",
             "n % -1",
             "n % 3",
             "n % -n",
             "n ** 2",
             "2 ** n",
             "n / 3",
             "1.5 // n",
             "n|round(n)",
             "n|round(-18)",
             "1.5|round(n)",
             "1.5|round(n, 'ceil')",
             "'x'[n]",
             "'x'[n:]",
             "'x'[:n]",
             "'x'[::n]",
             "[1][n]",
             "[1][n:n:n]",
             "'x' * n",
             "[1] * n",
             "'x'|center(n)",
             "'x'.zfill(n)",
             "'x'.ljust(n)",
             "'xyz'|truncate(n)",
             "'xyz'|truncate(3, leeway=n)",
             "'x'|indent(n)",
             "[1]|tojson(indent=n)",
             "[1]|batch(n)|list",
             "[1]|batch(n, 0)|list",
             "[1]|slice(n)|list",
             "range(n)|list",
             "range(n, -n)|list",
             "range(-n, n, n)|list",
             "range(0, n, n)|list",
             "'x'.find('x', n)",
             "'x'.count('x', n, n)",
             "'x'.split('x', n)",
             "'x'.rsplit('x', n)",
             "'x'|replace('x', 'y', n)",
             "'x'.startswith('x', n, n)",
             "n|tojson",
             "'%d' % n",
             "'%x' % n",
             "n|float|int",
             "'9223372036854775808'|int",
             "'-9223372036854775808'|int",
             "n is divisibleby(-1)",
             "n is odd",
             "[n]|sum(start=n)",
             "n|string",
             "'x'|int(0, n)",
         }) {
      const absl::Status status =
          TryRender(std::string("{% set lowest = -9223372036854775807 - 1 %}"
                                "{% set n = ") +
                        extreme + " %}{{ " + use + " }}",
                    input)
              .status();
      EXPECT_TRUE(status.ok() ||
                  status.code() == absl::StatusCode::kInvalidArgument)
          << use << ": " << status;
    }
  }
}

TEST(ChatLimitsTest, ValuesThatHoldEachOtherAreFreed) {
  // Found by the leak checker of the sanitizer builds, if at all.
  EXPECT_EQ(Render("{% set ns = namespace() %}{% set ns.self = ns %}"
                   "{% set ns.list = [ns] %}{% macro f() %}{% endmacro %}"
                   "{% set ns.f = f %}{% for i in [1, 2] %}"
                   "{% set ns.loop = loop %}{{ loop.changed(loop) }}"
                   "{% endfor %}{{ ns.loop.index }}{{ ns.loop.last }}",
                   UserSays("x")),
            "TrueFalse2True");
}

TEST(ChatLimitsTest, LongHonestConversationsFit) {
  ChatInput input = UserSays("x");
  input.messages = Json::array();
  for (int i = 0; i < 2000; ++i) {
    Say(input, i % 2 == 0 ? "user" : "assistant", Repeated("some words ", 50));
  }
  const std::string text = Render(
      ReadFile(HEADRACE_SOURCE_DIR
               "/tests/golden/chat_template/templates/chatml_tools.jinja"),
      input);
  EXPECT_GT(text.size(), 2000U * 550U);
}

}  // namespace
}  // namespace headrace
