// Causal grouped-query attention over a paged cache of keys and values, for a
// ragged batch: chunks of prompts and single decode rows alike.
#ifndef HEADRACE_ENGINE_OPS_ATTENTION_H_
#define HEADRACE_ENGINE_OPS_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/base/thread_team.h"
#include "engine/tensor/kv_layout.h"

namespace headrace {

// Rows of one sequence: `num_rows` consecutive positions from first_position
// on, whose keys and values are in the cache already.
struct AttentionSequence {
  int64_t first_row = 0;  // index of the first of them in q and dst
  int64_t num_rows = 0;
  int64_t first_position = 0;
  // Block of positions [i * block_size, (i + 1) * block_size), for every
  // position up to the last row's.
  std::span<const int32_t> block_table;
};

struct AttentionInputs {
  const float* q = nullptr;         // [num_rows, num_attention_heads, head_dim]
  int64_t q_row_stride = 0;         // floats from one row to the next
  int64_t num_attention_heads = 0;  // a multiple of the key/value heads
  float scale = 0;  // of the scores; commonly 1 / sqrt(head_dim)
  // Position j is visible from i >= j only when i - j < sliding_window.
  std::optional<int64_t> sliding_window;
  std::span<const AttentionSequence> sequences;
  const std::byte* kv = nullptr;  // keys and values of the layer
  KvLayout layout;  // of kv; says head_dim, num_key_value_heads, dtype
};

// Working memory of Attention(), allocated once per engine.
//
// Owned by the batch loop.
class AttentionScratch {
 public:
  // num_threads: of the team that Attention() will run on.
  AttentionScratch(int num_threads, int64_t head_dim);
  ~AttentionScratch();

 private:
  friend void Attention(ThreadTeam& team, const AttentionInputs& inputs,
                        AttentionScratch& scratch, float* dst,
                        int64_t dst_row_stride);

  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// dst = softmax(scale * q k^T, masked) v, for every row and head.
//
//   dst: [num_rows, num_attention_heads, head_dim] with dst_row_stride floats
//        from one row to the next; heads dense. Query head h reads key/value
//        head h / (num_attention_heads / num_key_value_heads).
//
// One order of every sum, whatever the chunk, the batch or the threads; see
// ATTENTION.md. In short: each score is a chain over head_dim; keys are taken
// in tiles of 64 and parts of 512 at absolute positions, with a running
// maximum within a part; parts are merged in ascending order; a masked key is
// not touched. Equal in every bit on every instruction set with fused
// multiply-add.
// Sources: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; Ainslie et al. 2023,
// arXiv:2305.13245 (grouped queries); Milakov and Gimelshein 2018,
// arXiv:1805.02867 (running maximum); Dao et al. 2022, arXiv:2205.14135.
void Attention(ThreadTeam& team, const AttentionInputs& inputs,
               AttentionScratch& scratch, float* dst, int64_t dst_row_stride);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ATTENTION_H_
