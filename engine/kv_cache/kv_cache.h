// Which rows of keys and values each sequence owns, shares and may reuse: the
// accounts of the cache, without its memory (paged_kv_storage.h).
#ifndef HEADRACE_ENGINE_KV_CACHE_KV_CACHE_H_
#define HEADRACE_ENGINE_KV_CACHE_KV_CACHE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/kv_cache/block_allocator.h"
#include "engine/kv_cache/prefix_index.h"

namespace headrace {

enum class KvSequenceId : uint64_t {};

struct KvRequest {
  std::span<const int32_t> prompt;  // not empty; copied
  int64_t max_rows = 0;             // >= prompt.size(): reserved at once
  // nullopt: neither reuse rows of others nor leave any for them.
  std::optional<PrefixKey> prefix_key;
  // Reuse no more than this; unset: all but the last row of the prompt.
  std::optional<int64_t> max_cached_rows;
};

struct KvSequence {
  KvSequenceId id;
  // Block of rows [i * block_size, (i + 1) * block_size); fixed until Close().
  std::vector<int32_t> block_table;
  // Leading rows that are computed already: a multiple of the block size,
  // always less than the prompt.
  int64_t cached_rows = 0;
};

struct KvCacheUse {
  int64_t total_blocks = 0;
  int64_t used_blocks = 0;     // reserved by open sequences
  int64_t cached_blocks = 0;   // reusable, held by none, free to be evicted
  int64_t prefix_queries = 0;  // prompt rows looked up
  int64_t prefix_hits = 0;     // prompt rows found
};

// Owned by the batch loop.
class KvCache {
 public:
  // block_size: rows per block.
  KvCache(int64_t num_blocks, int64_t block_size);

  // Reserves every block that the sequence may ever need. Cached blocks of a
  // common prefix are shared; others that no one uses are evicted when free
  // ones run out. Errors: RESOURCE_EXHAUSTED, with nothing changed.
  absl::StatusOr<KvSequence> Open(const KvRequest& request);

  // Rows [0, num_rows) of the sequence are computed. Only now do full blocks of
  // its prompt become visible to others. num_rows never decreases.
  void MarkComputed(KvSequenceId id, int64_t num_rows);

  // Gives all blocks back; those that hold a reusable prefix stay cached.
  void Close(KvSequenceId id);

  int64_t block_size() const { return block_size_; }
  int64_t BlocksFor(int64_t num_rows) const {
    return (num_rows + block_size_ - 1) / block_size_;
  }
  KvCacheUse use() const;

 private:
  struct Sequence {
    std::optional<PrefixKey> key;
    std::vector<int32_t> prompt_tokens;  // of its full blocks
    std::vector<int32_t> blocks;
    // Entries of its leading blocks in the index, its own or equal ones.
    std::vector<PrefixIndex::EntryId> entries;
  };

  std::vector<PrefixIndex::Match> FindPrefix(const KvRequest& request) const;
  // Enters a block in the index; false when what leads to it is not there.
  bool Publish(Sequence& sequence, size_t block_index);

  int64_t block_size_;
  BlockAllocator allocator_;
  PrefixIndex index_;
  absl::flat_hash_map<KvSequenceId, Sequence> sequences_;
  uint64_t next_id_ = 1;
  int64_t prefix_queries_ = 0;
  int64_t prefix_hits_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KV_CACHE_KV_CACHE_H_
