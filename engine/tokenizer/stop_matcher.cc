#include "engine/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

// Knuth, Morris, Pratt 1977, "Fast pattern matching in strings", section 2.
std::vector<size_t> ComputeBorders(std::string_view text) {
  std::vector<size_t> border(text.size() + 1, 0);
  size_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length];
    if (text[i] == text[length]) ++length;
    border[i + 1] = length;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stop_strings) {
  patterns_.reserve(stop_strings.size());
  for (std::string& stop : stop_strings) {
    std::vector<size_t> border = ComputeBorders(stop);
    patterns_.push_back({std::move(stop), std::move(border)});
  }
}

void StopMatcher::Advance(char byte) {
  ++position_;
  for (size_t stop = 0; stop < patterns_.size(); ++stop) {
    Pattern& p = patterns_[stop];
    while (p.matched > 0 && p.text[p.matched] != byte) {
      p.matched = p.border[p.matched];
    }
    if (p.text[p.matched] == byte) ++p.matched;
    if (p.matched < p.text.size()) continue;
    const Match match = {position_ - p.matched, p.matched, stop};
    p.matched = p.border[p.matched];
    if (!best_ || match.begin < best_->begin ||
        (match.begin == best_->begin && match.length > best_->length)) {
      best_ = match;
    }
  }
}

size_t StopMatcher::EarliestBegun() const {
  size_t matched = 0;
  for (const Pattern& p : patterns_) matched = std::max(matched, p.matched);
  return position_ - matched;
}

StopMatcher::Result StopMatcher::TakeMatch() {
  done_ = true;
  const size_t held_begin = position_ - held_.size();
  held_.resize(best_->begin - held_begin);
  return {std::exchange(held_, {}), best_->stop};
}

StopMatcher::Result StopMatcher::Add(std::string_view text) {
  if (done_) return {};
  for (const char byte : text) {
    held_.push_back(byte);
    Advance(byte);
    // What begins where the match begins and is still going is longer.
    if (best_ && EarliestBegun() > best_->begin) return TakeMatch();
  }
  size_t safe = EarliestBegun();
  if (best_) safe = std::min(safe, best_->begin);
  const size_t released = safe - (position_ - held_.size());
  Result result = {held_.substr(0, released), std::nullopt};
  held_.erase(0, released);
  return result;
}

StopMatcher::Result StopMatcher::Finish() {
  if (done_) return {};
  if (best_) return TakeMatch();
  done_ = true;
  return {std::exchange(held_, {}), std::nullopt};
}

std::string StopMatcher::Flush() { return Finish().text; }

}  // namespace headrace
