#include "engine/tokenizer/regex.h"

#include <string>
#include <vector>

#include "engine/tokenizer/regex_dialect.h"
#include "engine/tokenizer/utf8.h"
#include "gtest/gtest.h"
#include "tests/engine/tokenizer/golden_files.h"

namespace headrace {
namespace {

std::vector<std::string> FindAll(std::string_view pattern,
                                 std::string_view text) {
  const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<TextRange> ranges;
  if (regex.ok()) regex->FindAll(text, &ranges);
  std::vector<std::string> found;
  for (const TextRange range : ranges) {
    found.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(RegexTest, ClassesAreThoseOfTheReference) {
  const nlohmann::ordered_json classes = ReadGolden("classes");
  for (const auto& [pattern, ranges] : classes.items()) {
    const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    size_t next = 0;  // range
    for (char32_t code = 0; code < 0x110000; ++code) {
      if (code == 0xD800) code = 0xE000;
      while (next < ranges.size() && ranges[next][1] < code) ++next;
      const bool expected = next < ranges.size() && ranges[next][0] <= code;
      std::string text;
      AppendUtf8(code, &text);
      std::vector<TextRange> found;
      regex->FindAll(text, &found);
      ASSERT_EQ(!found.empty(), expected)
          << pattern << " U+" << std::hex << static_cast<uint32_t>(code);
    }
  }
}

TEST(RegexTest, FoldsCaseAsUnicodeDoes) {
  EXPECT_EQ(FindAll("(?i:'s)", "a'ſ'S's"), (Strings{"'ſ", "'S", "'s"}));
}

TEST(RegexTest, MatchesAtEveryLine) {
  EXPECT_EQ(FindAll("^a", "a\na"), (Strings{"a", "a"}));
  EXPECT_EQ(FindAll("a$", "a\na"), (Strings{"a", "a"}));
}

TEST(RegexTest, ClassesMayHoldClasses) {
  EXPECT_EQ(FindAll(R"([^\s\d]+)", "ab 12\u0085c"), (Strings{"ab", "c"}));
  EXPECT_EQ(FindAll(R"([\S]+)", "ab \u180e"), (Strings{"ab", "\u180e"}));
  EXPECT_EQ(FindAll(R"(\h+)", "xafg9"), (Strings{"af", "9"}));
  EXPECT_EQ(FindAll(R"([\u4e00-\u9fff]+)", "a四五b"), Strings{"四五"});
  EXPECT_EQ(FindAll(R"(\W)", "a_ -½"), (Strings{" ", "-"}));
}

TEST(RegexTest, NothingMatchesIllFormedBytes) {
  EXPECT_EQ(FindAll("[^x]", "a\xFF\xC3"), Strings{"a"});
  EXPECT_EQ(FindAll(R"(\s+(?!\S))", "  \xFF  a"), (Strings{"  ", " "}));
}

TEST(RegexTest, GivesEmptyMatchesOnce) {
  const absl::StatusOr<Regex> regex = Regex::Compile("(?=[A-Z])");
  ASSERT_TRUE(regex.ok());
  std::vector<TextRange> found;
  regex->FindAll("aBcD", &found);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].begin, 1u);
  EXPECT_EQ(found[0].end, 1u);
  EXPECT_EQ(found[1].begin, 3u);
}

TEST(RegexTest, GivesUpOnASearchThatExplodes) {
  const std::string text(2000, 'a');
  EXPECT_EQ(FindAll("(a*)*(a*)*b", text), Strings{});
}

TEST(RegexDialectTest, NamesWhatItDoesNotSupport) {
  struct Case {
    std::string_view pattern;
    std::string_view named;
  };
  const Case cases[] = {
      {R"([a[bc]])", "a class in a class at offset 2"},
      {R"([a-z&&[aeiou]])", "&& in a class at offset 4"},
      {R"(\p{N}{1,3}+)", "{n,m}+"},
      {R"((?m)a.b)", "the flag group (?m"},
      {R"((*UTF)a)", "(*"},
      {R"(\bword)", "\\b"},
      {R"((a)\1)", "\\1"},
      {R"(\pL)", "\\p without braces"},
      {R"(\u12)", "a short \\u"},
      {R"([\W])", "\\W"},
      {"a\\", "a final \\"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<std::string> made = ToPcre2Pattern(c.pattern);
    ASSERT_FALSE(made.ok()) << c.pattern;
    EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(std::string(made.status().message()).find(c.named),
              std::string::npos)
        << made.status();
  }
  const absl::StatusOr<Regex> open = Regex::Compile("(a");
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headrace
