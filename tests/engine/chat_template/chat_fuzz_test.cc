// No template, however broken, crashes, hangs or leaks: random tokens, and
// random mutations of valid templates. The seeds are fixed, so that a failure
// comes back. Worth most under the sanitizers.
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/chat_template.h"
#include "gtest/gtest.h"
#include "tests/engine/chat_template/chat_helpers.h"

namespace headrace {
namespace {

constexpr auto kTokens = std::to_array<std::string_view>({
    "{{",
    "}}",
    "{%",
    "%}",
    "{%-",
    "-%}",
    "{#",
    "#}",
    " ",
    "\n",
    "if",
    "else",
    "elif",
    "endif",
    "for",
    "in",
    "endfor",
    "set",
    "endset",
    "macro",
    "endmacro",
    "call",
    "endcall",
    "filter",
    "endfilter",
    "with",
    "endwith",
    "raw",
    "endraw",
    "not",
    "and",
    "or",
    "is",
    "break",
    "continue",
    "recursive",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "|",
    ",",
    ".",
    ":",
    "=",
    "==",
    "<",
    "+",
    "-",
    "*",
    "**",
    "//",
    "%",
    "~",
    "'a'",
    "\"b\\n\"",
    "'",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "1e308",
    "none",
    "true",
    "loop",
    "x",
    "messages",
    "content",
    "role",
    "upper",
    "join",
    "tojson",
    "length",
    "first",
    "map",
    "select",
    "default",
    "trim",
    "int",
    "list",
    "sort",
    "defined",
    "string",
    "mapping",
    "items",
    "get",
    "split",
    "strip",
    "replace",
    "namespace",
    "range",
    "loop.index",
    "caller",
    "generation",
    "endgeneration",
    "\xff",
    "é",
    "😀",
    "\\",
    "round",
    "groupby",
    "batch",
    "format",
    "indent",
    "center",
    "dictsort",
});

const std::vector<std::string>& ValidTemplates() {
  static const auto* const kTemplates = [] {
    auto* templates = new std::vector<std::string>();
    for (const char* name : {"bracket_tools", "chatml_tools", "header_tools",
                             "plain_chatml", "schema_macros", "turns"}) {
      templates->push_back(
          ReadFile(std::string(HEADRACE_SOURCE_DIR
                               "/tests/golden/chat_template/templates/") +
                   name + ".jinja"));
    }
    return templates;
  }();
  return *kTemplates;
}

ChatInput Conversation() {
  ChatInput input = UserSays("hi <|im_end|> \xff");
  Say(input, "assistant", Json::array({{{"type", "text"}, {"text", "a"}}}));
  Say(input, "tool", nullptr);
  input.tools = Json::parse(R"([{"function": {"name": "f", "n": [1, 2.5]}}])");
  input.template_kwargs = {{"x", {{"a", 1}, {"items", "b"}}}};
  return input;
}

// Neither result is wrong; coming back with one is right. An error of ours
// would be of another kind.
void ExpectAnswer(const std::string& source) {
  static const auto* const kInput = new ChatInput(Conversation());
  const absl::Status status = TryRender(source, *kInput).status();
  EXPECT_TRUE(status.ok() ||
              status.code() == absl::StatusCode::kInvalidArgument)
      << status << "\n"
      << source;
}

std::string_view AnyToken(std::mt19937& random) {
  return kTokens[random() % kTokens.size()];
}

TEST(ChatFuzzTest, RandomTokensAreAnswered) {
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    std::string source;
    for (size_t length = 1 + random() % 30; length > 0; --length) {
      source += AnyToken(random);
      if (random() % 2 == 0) source += ' ';
    }
    ExpectAnswer(source);
  }
}

TEST(ChatFuzzTest, RandomExpressionsAreAnswered) {
  std::mt19937 random(2);
  for (int i = 0; i < 6000; ++i) {
    std::string source = "{{ ";
    for (size_t length = 1 + random() % 12; length > 0; --length) {
      // The tokens from "not" on are those of expressions.
      source += kTokens[29 + random() % (kTokens.size() - 29)];
      source += ' ';
    }
    ExpectAnswer(source + "}}");
  }
}

TEST(ChatFuzzTest, MutatedTemplatesAreAnswered) {
  std::mt19937 random(3);
  for (int i = 0; i < 1500; ++i) {
    const std::vector<std::string>& valid = ValidTemplates();
    std::string source = valid[random() % valid.size()];
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % source.size();
      const size_t length = std::min(source.size() - at, random() % 8);
      const std::string& other = valid[random() % valid.size()];
      switch (random() % 4) {
        case 0:
          source.erase(at, length);
          break;
        case 1:
          source.insert(at, AnyToken(random));
          break;
        case 2:
          source.replace(at, length, AnyToken(random));
          break;
        default:
          source.insert(at, other.substr(random() % other.size(), 60));
      }
      if (source.empty()) source = "x";
    }
    ExpectAnswer(source);
  }
}

}  // namespace
}  // namespace headrace
