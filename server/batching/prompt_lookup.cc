#include "server/batching/prompt_lookup.h"

#include <algorithm>
#include <iterator>

namespace headrace {

std::vector<int32_t> PromptLookup::Guess(int64_t max_tokens) const {
  const int64_t size = std::ssize(tokens_);
  if (max_tokens <= 0) return {};
  int64_t best_length = kMinMatch - 1;
  int64_t best_end = 0;
  const int64_t first = std::max<int64_t>(kMinMatch, size - kWindow);
  for (int64_t end = size - 1; end >= first && best_length < kMaxMatch; --end) {
    int64_t length = 0;
    const int64_t longest = std::min(end, kMaxMatch);
    while (length < longest &&
           tokens_[end - 1 - length] == tokens_[size - 1 - length]) {
      ++length;
    }
    if (length <= best_length) continue;
    best_length = length;
    best_end = end;
  }
  if (best_end == 0) return {};
  const int64_t count = std::min(max_tokens, size - best_end);
  return {tokens_.begin() + best_end, tokens_.begin() + best_end + count};
}

void PromptLookup::OnOutcome(int64_t guessed, int64_t right) {
  constexpr double kNewest = 0.2;
  for (int64_t i = 0; i < right; ++i) {
    acceptance_ += (1 - acceptance_) * kNewest;
  }
  if (right < guessed) acceptance_ -= acceptance_ * kNewest;
}

void PromptLookup::OnUntried() {
  constexpr double kAging = 0.01;
  acceptance_ += (kUnknownAcceptance - acceptance_) * kAging;
}

}  // namespace headrace
