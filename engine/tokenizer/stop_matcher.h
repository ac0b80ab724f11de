// Finds stop strings in streamed text, across token borders, and never lets a
// part of one out.
#ifndef HEADRACE_ENGINE_TOKENIZER_STOP_MATCHER_H_
#define HEADRACE_ENGINE_TOKENIZER_STOP_MATCHER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

// Thread-compatible; one per choice.
class StopMatcher {
 public:
  // `stop_strings` hold no empty string.
  explicit StopMatcher(std::vector<std::string> stop_strings);

  struct Result {
    std::string text;  // safe to show: can no longer be part of a stop
    std::optional<size_t> stop;  // index of the stop string that matched
  };
  // Adds generated text. On a match, `text` ends before the stop string, and
  // nothing is added any more. The earliest match wins, then the longest: a
  // property of the whole text, however it is cut into pieces, so a match
  // waits for as long as an earlier or longer one is still possible.
  Result Add(std::string_view text);
  // Text held back, at the end of the stream; with the match that was waiting.
  Result Finish();
  // The text of Finish().
  std::string Flush();

 private:
  // Knuth, Morris and Pratt's automaton of one stop string.
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // [i]: longest proper border of the first i
    size_t matched = 0;          // bytes of `text` that the stream ends with
  };
  struct Match {
    size_t begin;  // in the stream
    size_t length;
    size_t stop;
  };

  void Advance(char byte);
  // Start of the earliest stop string that is begun and not complete.
  size_t EarliestBegun() const;
  Result TakeMatch();

  std::vector<Pattern> patterns_;
  std::optional<Match> best_;
  std::string held_;
  size_t position_ = 0;  // bytes of the stream so far; held_ are the last
  bool done_ = false;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_STOP_MATCHER_H_
