// How rows get into the paged cache of keys and values, and out again.
#ifndef HEADRACE_ENGINE_OPS_KV_ROWS_H_
#define HEADRACE_ENGINE_OPS_KV_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/thread_team.h"
#include "engine/tensor/kv_layout.h"

namespace headrace {

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

// Puts rows in their places of a layer (PagedKvStorage::layer), rounded to the
// layout's type: see ATTENTION.md.
void StoreKeysAndValues(ThreadTeam& team, const KvLayout& layout,
                        const KvRows& rows, std::byte* layer);

// Where one key and value are.
struct KvPlace {
  KvLayout layout;
  const std::byte* layer = nullptr;
  std::span<const int32_t> block_table;
  int64_t position = 0;
  int64_t head = 0;  // key/value head
};

// dst[head_dim] = the key, or the value, as attention reads it.
void LoadKey(const KvPlace& place, float* dst);
void LoadValue(const KvPlace& place, float* dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_KV_ROWS_H_
