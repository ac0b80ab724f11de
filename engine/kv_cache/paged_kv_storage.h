// The memory of keys and values: blocks for every layer, laid out as attention
// reads them.
#ifndef HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_
#define HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/tensor/kv_layout.h"

namespace headrace {

struct KvShape {
  int64_t num_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 16;  // rows per block; a multiple of 16
  KvCacheDtype dtype = KvCacheDtype::kF32;
};

// One anonymous mapping: a page costs memory from its first write on.
//
// Owned by the batch loop.
class PagedKvStorage {
 public:
  // Errors: INVALID_ARGUMENT for a shape that makes no sense;
  // RESOURCE_EXHAUSTED when the address space cannot be had.
  static absl::StatusOr<PagedKvStorage> Create(const KvShape& shape,
                                               int64_t num_blocks);
  ~PagedKvStorage();
  PagedKvStorage(PagedKvStorage&& other) noexcept;
  PagedKvStorage& operator=(PagedKvStorage&& other) noexcept;

  // Bytes that one block takes in all layers together.
  static int64_t BytesPerBlock(const KvShape& shape);

  int64_t num_blocks() const { return num_blocks_; }

  // The keys and values of a layer, and how they lie there.
  std::byte* layer(int64_t layer) const {
    return base_ + layer * layout_.layer_bytes(num_blocks_);
  }
  const KvLayout& layout() const { return layout_; }

 private:
  PagedKvStorage(const KvShape& shape, int64_t num_blocks, std::byte* base);

  size_t mapping_bytes() const;

  int64_t num_layers_;
  KvLayout layout_;
  int64_t num_blocks_;
  std::byte* base_;  // of the mapping; null after a move
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_
