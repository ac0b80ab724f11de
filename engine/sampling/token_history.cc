#include "engine/sampling/token_history.h"

namespace headrace {

TokenHistory::Entry& TokenHistory::EntryOf(int32_t token) {
  const auto [found, is_new] = index_.try_emplace(token, entries_.size());
  if (is_new) entries_.push_back({.token = token});
  return entries_[found->second];
}

void TokenHistory::AddPrompt(std::span<const int32_t> prompt) {
  for (int32_t token : prompt) EntryOf(token);
}

void TokenHistory::AddGenerated(int32_t token) { ++EntryOf(token).generated; }

}  // namespace headrace
