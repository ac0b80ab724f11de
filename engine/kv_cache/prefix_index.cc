#include "engine/kv_cache/prefix_index.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"

namespace headrace {

std::vector<PrefixIndex::Match> PrefixIndex::Find(
    const PrefixKey& key, std::span<const int32_t> tokens,
    int64_t max_blocks) const {
  std::vector<Match> matches;
  const int64_t num_blocks =
      std::min(max_blocks, static_cast<int64_t>(tokens.size()) / block_size_);
  EntryId parent = EntryId::kRoot;
  for (int64_t i = 0; i < num_blocks; ++i) {
    const auto block_tokens = tokens.subspan(
        static_cast<size_t>(i * block_size_), static_cast<size_t>(block_size_));
    const Node node = {key, parent, {block_tokens.begin(), block_tokens.end()}};
    const auto found = block_of_node_.find(node);
    if (found == block_of_node_.end()) break;
    parent = entry_of_block_.at(found->second).id;
    matches.push_back({.entry = parent, .block = found->second});
  }
  return matches;
}

PrefixIndex::Inserted PrefixIndex::Insert(const PrefixKey& key, EntryId parent,
                                          std::span<const int32_t> tokens,
                                          int32_t block) {
  CHECK_EQ(static_cast<int64_t>(tokens.size()), block_size_);
  CHECK(Contains(parent));
  Node node = {key, parent, {tokens.begin(), tokens.end()}};
  const auto [found, is_new] = block_of_node_.try_emplace(node, block);
  if (!is_new) {
    return {.entry = entry_of_block_.at(found->second).id, .is_new = false};
  }
  const EntryId id{next_id_++};
  const bool block_is_new =
      entry_of_block_
          .try_emplace(block, Entry{.node = std::move(node), .id = id})
          .second;
  CHECK(block_is_new) << "block " << block << " has an entry already";
  block_of_entry_[id] = block;
  return {.entry = id, .is_new = true};
}

bool PrefixIndex::Contains(EntryId entry) const {
  return entry == EntryId::kRoot || block_of_entry_.contains(entry);
}

bool PrefixIndex::HoldsBlock(int32_t block) const {
  return entry_of_block_.contains(block);
}

void PrefixIndex::Pin(int32_t block) {
  Entry& entry = entry_of_block_.at(block);
  if (!entry.evictable_at) return;
  evictable_.erase(*entry.evictable_at);
  entry.evictable_at.reset();
}

void PrefixIndex::Unpin(int32_t block) {
  Entry& entry = entry_of_block_.at(block);
  CHECK(!entry.evictable_at) << "block " << block << " is not pinned";
  entry.evictable_at = evictable_.insert(evictable_.end(), block);
}

std::optional<int32_t> PrefixIndex::Evict() {
  if (evictable_.empty()) return std::nullopt;
  const int32_t block = evictable_.front();
  evictable_.pop_front();
  const auto found = entry_of_block_.find(block);
  block_of_entry_.erase(found->second.id);
  block_of_node_.erase(found->second.node);
  entry_of_block_.erase(found);
  return block;
}

}  // namespace headrace
