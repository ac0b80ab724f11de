#include "engine/kv_cache/kv_cache.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace headrace {

// References: each open sequence holds one to every block of its table, and the
// index holds one to every block that it has an entry for. So a block with an
// entry is free to be evicted when the index's is the only one, and that is
// when it is not pinned.
KvCache::KvCache(int64_t num_blocks, int64_t block_size)
    : block_size_(block_size), allocator_(num_blocks), index_(block_size) {
  CHECK_GT(block_size, 0);
}

std::vector<PrefixIndex::Match> KvCache::FindPrefix(
    const KvRequest& request) const {
  if (!request.prefix_key) return {};
  // The last row of the prompt is always computed: its result is wanted.
  int64_t max_rows = static_cast<int64_t>(request.prompt.size()) - 1;
  if (request.max_cached_rows) {
    max_rows = std::min(max_rows, *request.max_cached_rows);
  }
  return index_.Find(*request.prefix_key, request.prompt,
                     max_rows / block_size_);
}

absl::StatusOr<KvSequence> KvCache::Open(const KvRequest& request) {
  CHECK(!request.prompt.empty());
  CHECK_GE(request.max_rows, static_cast<int64_t>(request.prompt.size()));
  const std::vector<PrefixIndex::Match> matches = FindPrefix(request);
  for (const PrefixIndex::Match& match : matches) index_.Pin(match.block);

  const int64_t num_shared = static_cast<int64_t>(matches.size());
  const int64_t num_new = BlocksFor(request.max_rows) - num_shared;
  const int64_t available = allocator_.num_free() + index_.num_evictable();
  if (num_new > available) {
    for (auto it = matches.rbegin(); it != matches.rend(); ++it) {
      // Without a holder but the index it was evictable before.
      if (allocator_.references(it->block) == 1) index_.Unpin(it->block);
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("sequence of ", request.max_rows, " rows needs ", num_new,
                     " KV blocks of ", block_size_, " rows; ", available,
                     " of ", allocator_.num_blocks(), " are free"));
  }

  Sequence sequence = {.key = request.prefix_key};
  for (const PrefixIndex::Match& match : matches) {
    allocator_.AddReference(match.block);
    sequence.blocks.push_back(match.block);
    sequence.entries.push_back(match.entry);
  }
  for (int64_t i = 0; i < num_new; ++i) {
    if (allocator_.num_free() == 0) allocator_.Release(*index_.Evict());
    sequence.blocks.push_back(allocator_.Allocate());
  }
  if (request.prefix_key) {
    const size_t full_rows = request.prompt.size() /
                             static_cast<size_t>(block_size_) *
                             static_cast<size_t>(block_size_);
    sequence.prompt_tokens.assign(
        request.prompt.begin(),
        request.prompt.begin() + static_cast<std::ptrdiff_t>(full_rows));
    prefix_queries_ += static_cast<int64_t>(request.prompt.size());
    prefix_hits_ += num_shared * block_size_;
  }
  const KvSequenceId id{next_id_++};
  KvSequence opened = {.id = id,
                       .block_table = sequence.blocks,
                       .cached_rows = num_shared * block_size_};
  sequences_.emplace(id, std::move(sequence));
  return opened;
}

void KvCache::MarkComputed(KvSequenceId id, int64_t num_rows) {
  Sequence& sequence = sequences_.at(id);
  if (!sequence.key) return;
  const size_t num_full = std::min(
      static_cast<size_t>(num_rows / block_size_),
      sequence.prompt_tokens.size() / static_cast<size_t>(block_size_));
  for (size_t i = sequence.entries.size(); i < num_full; ++i) {
    if (!Publish(sequence, i)) return;
  }
}

bool KvCache::Publish(Sequence& sequence, size_t block_index) {
  const auto parent = block_index == 0 ? PrefixIndex::EntryId::kRoot
                                       : sequence.entries[block_index - 1];
  // Another sequence computed the same prefix first, closed, and was evicted.
  if (!index_.Contains(parent)) return false;
  const size_t size = static_cast<size_t>(block_size_);
  const int32_t block = sequence.blocks[block_index];
  const PrefixIndex::Inserted inserted = index_.Insert(
      *sequence.key, parent,
      std::span(sequence.prompt_tokens).subspan(block_index * size, size),
      block);
  if (inserted.is_new) allocator_.AddReference(block);
  sequence.entries.push_back(inserted.entry);
  return true;
}

void KvCache::Close(KvSequenceId id) {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end());
  // Last block first, so that it is evicted before those that lead to it.
  const std::vector<int32_t>& blocks = found->second.blocks;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    allocator_.Release(*block);
    if (index_.HoldsBlock(*block) && allocator_.references(*block) == 1) {
      index_.Unpin(*block);
    }
  }
  sequences_.erase(found);
}

KvCacheUse KvCache::use() const {
  return {.total_blocks = allocator_.num_blocks(),
          .used_blocks = allocator_.num_blocks() - allocator_.num_free() -
                         index_.num_evictable(),
          .cached_blocks = index_.num_evictable(),
          .prefix_queries = prefix_queries_,
          .prefix_hits = prefix_hits_};
}

}  // namespace headrace
