#include "engine/tokenizer/stop_matcher.h"

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using Result = StopMatcher::Result;

TEST(StopMatcherTest, LetsNoPartOfAStopStringOut) {
  StopMatcher matcher({"STOP"});

  EXPECT_EQ(matcher.Add("go on S").text, "go on ");
  EXPECT_EQ(matcher.Add("TO").text, "");
  const Result result = matcher.Add("P here");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop, 0u);
}

TEST(StopMatcherTest, ReleasesTextAsSoonAsItCannotMatch) {
  StopMatcher matcher({"aab"});

  EXPECT_EQ(matcher.Add("a").text, "");
  EXPECT_EQ(matcher.Add("a").text, "");
  EXPECT_EQ(matcher.Add("a").text, "a");
  EXPECT_EQ(matcher.Add("c").text, "aac");
  EXPECT_EQ(matcher.Add("b").text, "b");
}

TEST(StopMatcherTest, FindsTheEarliestMatchThenTheLongest) {
  EXPECT_EQ(StopMatcher({"world", "lo w"}).Add("hello world").stop, 1u);
  EXPECT_EQ(StopMatcher({"wor", "world"}).Add("hello world").stop, 1u);
  EXPECT_EQ(StopMatcher({"world", "wor"}).Add("hello world").stop, 0u);
  EXPECT_EQ(StopMatcher({"x", "x"}).Add("axb").stop, 0u);
  // The longer one begins earlier but is never completed.
  EXPECT_EQ(StopMatcher({"abcd", "bc"}).Add("abce").stop, 1u);
}

TEST(StopMatcherTest, WaitsWhileALongerMatchIsPossible) {
  StopMatcher matcher({"\n", "\n\n"});
  EXPECT_EQ(matcher.Add("a\n").stop, std::nullopt);
  const Result result = matcher.Add("b");
  EXPECT_EQ(result.stop, 0u);
  EXPECT_EQ(result.text, "");

  StopMatcher second({"\n", "\n\n"});
  EXPECT_EQ(second.Add("a\n").text, "a");
  EXPECT_EQ(second.Add("\n").stop, 1u);
}

TEST(StopMatcherTest, EndsWithTheMatchThatWaited) {
  StopMatcher matcher({"\n", "\n\n"});
  EXPECT_EQ(matcher.Add("ab\n").text, "ab");
  const Result result = matcher.Finish();
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop, 0u);

  StopMatcher second({"bc", "abcd"});
  EXPECT_EQ(second.Add("xabc").text, "x");
  EXPECT_EQ(second.Flush(), "a");
}

TEST(StopMatcherTest, FlushesWhatNeverMatched) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Add("to st").text, "to ");
  EXPECT_EQ(matcher.Flush(), "st");
  EXPECT_EQ(StopMatcher({}).Add("anything").text, "anything");
}

TEST(StopMatcherTest, AddsNothingAfterAMatch) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.Add("a.b").text, "a");
  EXPECT_EQ(matcher.Add("c").text, "");
  EXPECT_EQ(matcher.Flush(), "");
}

// The definition, slowly: the first position where a stop string stands, and
// the longest one there.
std::pair<std::string, std::optional<size_t>> Reference(
    const std::vector<std::string>& stops, const std::string& text) {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (text.compare(begin, stops[i].size(), stops[i]) != 0) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, begin), best};
  }
  return {text, std::nullopt};
}

TEST(StopMatcherTest, DoesNotDependOnHowTheTextIsCut) {
  std::mt19937 random(5);
  const auto draw = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  const auto word = [&](int longest) {
    std::string out(1 + draw(longest), 'a');
    for (char& c : out) c = static_cast<char>('a' + draw(2));
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + draw(4));
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(40);
    StopMatcher matcher(stops);
    std::string shown;
    std::optional<size_t> stop;
    size_t done = 0;
    while (done < text.size() && !stop) {
      const size_t length = 1 + static_cast<size_t>(draw(5));
      Result result = matcher.Add(text.substr(done, length));
      done += length;
      shown += result.text;
      stop = result.stop;
    }
    if (!stop) {
      Result result = matcher.Finish();
      shown += result.text;
      stop = result.stop;
    }

    const auto [expected_text, expected_stop] = Reference(stops, text);
    ASSERT_EQ(shown, expected_text) << text;
    ASSERT_EQ(stop.has_value(), expected_stop.has_value()) << text;
    // Equal stop strings may stand twice.
    if (stop) {
      ASSERT_EQ(stops[*stop], stops[*expected_stop]) << text;
    }
  }
}

}  // namespace
}  // namespace headrace
