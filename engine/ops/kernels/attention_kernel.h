// Attention of a few rows that share their keys and values: one sequence, one
// key/value head. See engine/ops/ATTENTION.md for the order of the sums.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_KERNEL_H_
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_KERNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/tensor/kv_layout.h"

namespace headrace::kernels {

inline constexpr int64_t kKeysPerTile = 64;
inline constexpr int64_t kLinesPerTile =
    kKeysPerTile / KvLayout::kPositionsPerLine;
inline constexpr int64_t kKeysPerPart = 512;
// Rows that one call computes at the most: (token, query head) pairs.
inline constexpr int64_t kMaxAttentionRows = 48;

// Up to this many rows are computed a whole part at a time, as memory is then
// slower than arithmetic; more of them a tile at a time.
inline constexpr int64_t kMaxStreamingRows = 8;
inline constexpr int64_t kTilesPerPart = kKeysPerPart / kKeysPerTile;
inline constexpr int64_t kMaxRunRows =
    std::max(kMaxAttentionRows, kMaxStreamingRows* kTilesPerPart);

// num_tokens * num_heads <= kMaxAttentionRows rows, token by token; row r is
// query head r % num_heads of token r / num_heads.
struct AttentionRows {
  const float* q = nullptr;  // first head of the first token
  int64_t q_token_stride = 0;
  int64_t num_tokens = 0;
  int64_t num_heads = 0;  // adjacent heads
  float scale = 0;
  int64_t first_position = 0;  // of the first token
  int64_t window = 0;          // visible positions, the row's own included
  const int32_t* block_table = nullptr;
  const std::byte* kv = nullptr;  // of the layer
  KvLayout layout;
  int64_t kv_head = 0;

  int64_t num_rows() const { return num_tokens * num_heads; }
  int64_t head_dim() const { return layout.head_dim; }
  int64_t width() const { return layout.width(); }
};

// A softmax under way: of row r, the maximum score, the sum of exponentials
// and the sum of values times exponentials. A sum of 0 marks a row that has
// seen no key.
struct AttentionState {
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
  float* out = nullptr;  // [rows, width], 64-byte aligned
};

// Memory that one call of AttendPart works in; 64-byte aligned.
struct AttentionWorkspace {
  float* q = nullptr;        // [kMaxAttentionRows, width]
  float* scores = nullptr;   // [kMaxRunRows, kKeysPerTile]
  float* factors = nullptr;  // [kMaxRunRows]
  float* sums = nullptr;     // [kMaxAttentionRows, kSumLanes]
  // For keys and values that are integers:
  int16_t* integer_q = nullptr;    // [kMaxAttentionRows, width]
  float* q_scales = nullptr;       // [kMaxAttentionRows]
  int16_t* weights = nullptr;      // [kMaxRunRows, kKeysPerTile]
  float* weight_scales = nullptr;  // [kMaxRunRows]
};

// Copies the queries, times the scale, as AttendPart takes them.
void PrepareQueries(const AttentionRows& rows, AttentionWorkspace workspace);

// Attends from the prepared queries to positions [part * kKeysPerPart,
// (part + 1) * kKeysPerPart) and fills in every row of `part_state`.
void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state);

// The scores of one row (num_rows() is 1) with the prepared query, for the keys
// that it sees, ascending: the very ones that AttendPart() computes.
void ScoreRow(const AttentionRows& row, AttentionWorkspace workspace,
              float* dst);

// The three above for keys and values that are integers, which they call.
void QuantizeQueries(const AttentionRows& rows, AttentionWorkspace workspace);
void AttendIntegerPart(const AttentionRows& rows, int64_t part,
                       AttentionWorkspace workspace, AttentionState part_state);
void ScoreIntegerRow(const AttentionRows& row, AttentionWorkspace workspace,
                     float* dst);

// Merges a later part into `total`, row by row.
void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total);

// Divides by the sums: dst[token * dst_token_stride + head * head_dim].
void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_KERNEL_H_
