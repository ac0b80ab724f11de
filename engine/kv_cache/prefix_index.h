// Finds blocks whose keys and values were computed for the same leading tokens
// before. Knows block numbers and tokens, not keys and values.
#ifndef HEADRACE_ENGINE_KV_CACHE_PREFIX_INDEX_H_
#define HEADRACE_ENGINE_KV_CACHE_PREFIX_INDEX_H_

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace headrace {

// What two prompts must have in common, beside tokens, to share blocks.
struct PrefixKey {
  uint64_t salt = 0;       // of the tenant, so that no one probes another's
  uint64_t rope_hash = 0;  // EffectiveRope::hash: keys are stored rotated

  bool operator==(const PrefixKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const PrefixKey& key) {
    return H::combine(std::move(h), key.salt, key.rope_hash);
  }
};

// A tree of full blocks: an entry is (key, parent entry, its tokens), so an
// equal entry means equal tokens from the first on. Found by hash and then
// compared token by token: a collision of hashes finds nothing wrong.
//
// Entries are pinned while a sequence uses their block; the others can be
// evicted, least recently used first.
//
// Thread-compatible.
class PrefixIndex {
 public:
  // Numbers of entries are never used again, so the children of an evicted
  // entry cannot be found under a later one.
  enum class EntryId : uint64_t { kRoot = 0 };

  struct Match {
    EntryId entry;
    int32_t block;
  };

  explicit PrefixIndex(int64_t block_size) : block_size_(block_size) {}

  // The longest run of entries that hold the leading full blocks of `tokens`,
  // `max_blocks` at the most.
  std::vector<Match> Find(const PrefixKey& key, std::span<const int32_t> tokens,
                          int64_t max_blocks) const;

  struct Inserted {
    EntryId entry;
    bool is_new;  // else there was an equal one, with a block of its own
  };
  // Adds `block`, which holds `tokens` (block_size of them) after `parent`,
  // pinned. A block has one entry at the most.
  Inserted Insert(const PrefixKey& key, EntryId parent,
                  std::span<const int32_t> tokens, int32_t block);

  // Whether the entry has not been evicted; true for kRoot.
  bool Contains(EntryId entry) const;

  // Whether an entry holds this block.
  bool HoldsBlock(int32_t block) const;

  // The block of an entry comes into use, or out of use and so becomes the most
  // recently used of those that can be evicted.
  void Pin(int32_t block);
  void Unpin(int32_t block);

  int64_t num_evictable() const {
    return static_cast<int64_t>(evictable_.size());
  }

  // Forgets the least recently used unpinned entry and returns its block.
  std::optional<int32_t> Evict();

 private:
  struct Node {
    PrefixKey key;
    EntryId parent;
    std::vector<int32_t> tokens;

    bool operator==(const Node&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Node& node) {
      return H::combine(std::move(h), node.key, node.parent, node.tokens);
    }
  };
  struct Entry {
    Node node;
    EntryId id;
    // Where it is in evictable_; nullopt while pinned.
    std::optional<std::list<int32_t>::iterator> evictable_at;
  };

  int64_t block_size_;
  uint64_t next_id_ = 1;
  absl::flat_hash_map<Node, int32_t> block_of_node_;
  absl::flat_hash_map<int32_t, Entry> entry_of_block_;
  absl::flat_hash_map<EntryId, int32_t> block_of_entry_;
  std::list<int32_t> evictable_;  // blocks, least recently used first
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KV_CACHE_PREFIX_INDEX_H_
