// The memory of keys and values: blocks for every layer, laid out as attention
// reads them.
#ifndef HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_
#define HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "engine/tensor/kv_layout.h"

namespace headrace {

struct KvShape {
  int64_t num_layers = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 16;  // rows per block; a multiple of 16
};

// Consecutive rows of one sequence.
struct KvRows {
  const float* k = nullptr;  // [num_rows, num_key_value_heads, head_dim]
  const float* v = nullptr;  // [num_rows, num_key_value_heads, head_dim]
  int64_t k_row_stride = 0;  // floats from one row to the next
  int64_t v_row_stride = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;
  std::span<const int32_t> block_table;  // KvSequence::block_table
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

  // Stores rows in their places of one layer.
  void WriteRows(int64_t layer, const KvRows& rows);

  int64_t num_blocks() const { return num_blocks_; }

  // For attention: the keys and values of a layer, and how they lie there.
  const float* layer(int64_t layer) const {
    return base_ + layer * layout_.layer_floats(num_blocks_);
  }
  const KvLayout& layout() const { return layout_; }

 private:
  PagedKvStorage(const KvShape& shape, int64_t num_blocks, float* base);

  size_t mapping_bytes() const;

  int64_t num_layers_;
  KvLayout layout_;
  int64_t num_blocks_;
  float* base_;  // of the mapping; null after a move
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KV_CACHE_PAGED_KV_STORAGE_H_
