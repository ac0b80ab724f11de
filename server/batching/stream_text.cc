#include "server/batching/stream_text.h"

#include <algorithm>
#include <utility>

namespace headrace {

StreamText::StreamText(const Tokenizer* tokenizer, const Request& request,
                       int32_t choice)
    : tokenizer_(tokenizer),
      request_(request),
      choice_(choice),
      stop_matcher_(request.stop.stop_strings) {
  if (tokenizer != nullptr) {
    detokenizer_.emplace(tokenizer, request.skip_special_tokens,
                         /*continues_text=*/true);
  }
}

TokenEvent StreamText::Add(int32_t token) {
  TokenEvent event{.choice = choice_, .index = generated_++, .token = token};
  event.special =
      tokenizer_ != nullptr && tokenizer_->KindOf(token) == TokenKind::kControl;
  if (IsEndToken(token)) {
    Finish(FinishReason::kStopToken);
    if (end_.reason == FinishReason::kStopToken) end_.stop_token_id = token;
    return event;
  }
  if (detokenizer_.has_value()) event.text = AddText(detokenizer_->Add(token));
  if (!finished() && generated_ >= request_.stop.max_tokens) {
    Finish(request_.stop.limited_by_context ? FinishReason::kContextFull
                                            : FinishReason::kMaxTokens);
  }
  return event;
}

void StreamText::Finish(FinishReason reason) {
  if (finished()) return;
  if (!detokenizer_.has_value()) {
    MakeEnd(reason);
    return;
  }
  StopMatcher::Result held = stop_matcher_.Add(detokenizer_->Flush());
  if (!held.stop.has_value()) {
    // A match may have waited for a longer one.
    const StopMatcher::Result last = stop_matcher_.Finish();
    held = {.text = held.text + last.text, .stop = last.stop};
  }
  std::string text = TakeStop(std::move(held));
  if (!finished()) MakeEnd(reason);
  end_.text = std::move(text);
}

bool StreamText::IsEndToken(int32_t token) const {
  const std::vector<int32_t>& ids = request_.sequence.end_token_ids;
  return generated_ > request_.sequence.min_tokens &&
         std::find(ids.begin(), ids.end(), token) != ids.end();
}

std::string StreamText::AddText(const std::string& text) {
  if (generated_ < request_.sequence.min_tokens) return text;
  return TakeStop(stop_matcher_.Add(text));
}

std::string StreamText::TakeStop(StopMatcher::Result found) {
  if (!found.stop.has_value()) return std::move(found.text);
  const std::string& stop_string = request_.stop.stop_strings[*found.stop];
  MakeEnd(FinishReason::kStopString);
  end_.stop_string = stop_string;
  if (request_.stop.include_stop_string) found.text += stop_string;
  return std::move(found.text);
}

void StreamText::MakeEnd(FinishReason reason) {
  finished_ = true;
  end_ = {.choice = choice_, .reason = reason, .generated = generated_};
}

}  // namespace headrace
