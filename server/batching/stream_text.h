// The text of one choice and when it ends: detokenizer, stop strings, end
// tokens and limits in one place.
#ifndef HEADRACE_SERVER_BATCHING_STREAM_TEXT_H_
#define HEADRACE_SERVER_BATCHING_STREAM_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/stop_matcher.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/batching/events.h"
#include "server/batching/request.h"

namespace headrace {

// Owned by the batch loop; one per choice.
//
// Stop strings are sought in the text of token number `min_tokens` and later,
// never in or across the prompt.
class StreamText {
 public:
  // `tokenizer` may be null: then there is no text. `request` outlives this.
  StreamText(const Tokenizer* tokenizer, const Request& request,
             int32_t choice);

  // Takes the next token; not after finished().
  TokenEvent Add(int32_t token);
  // Ends the choice for a reason from outside, unless it has ended already.
  void Finish(FinishReason reason);

  bool finished() const { return finished_; }
  int64_t generated() const { return generated_; }
  // What the choice came to; only when finished().
  const ChoiceEndEvent& end() const { return end_; }

 private:
  bool IsEndToken(int32_t token) const;
  std::string AddText(const std::string& text);
  // The text to show of what the matcher found; ends the choice on a match.
  std::string TakeStop(StopMatcher::Result found);
  void MakeEnd(FinishReason reason);

  const Tokenizer* const tokenizer_;
  const Request& request_;
  const int32_t choice_;
  std::optional<IncrementalDetokenizer> detokenizer_;  // with a tokenizer
  StopMatcher stop_matcher_;
  int64_t generated_ = 0;
  bool finished_ = false;
  ChoiceEndEvent end_;  // set once finished
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_STREAM_TEXT_H_
