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
    std::string text;            // safe to show: can no longer be part of a stop
    std::optional<size_t> stop;  // index of the stop string that matched
  };
  // Adds generated text. On a match, `text` ends before the stop string. The
  // earliest match wins, then the longest.
  Result Add(std::string_view text);
  // Text held back, at the end of the stream.
  std::string Flush();

 private:
  std::vector<std::string> stop_strings_;
  std::string held_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_STOP_MATCHER_H_
