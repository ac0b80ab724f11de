// Where keys and values lie in the paged cache of one layer: agreed between the
// room that stores them and the one that reads them.
#ifndef HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_
#define HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_

#include <cstdint>

#include "engine/tensor/kv_cache_dtype.h"

namespace headrace {

// In bytes, slowest first:
//
//   keys and values of a group:  [num_key_value_heads, 2, blocks_per_group]
//   keys of a block and head:    [block_size / 16] lines
//   values of a block and head:  [block_size / 16] lines
//
// A line is 16 neighbouring positions:
//
//            keys                              values
//   float    [width, 16]                       [16, width]
//   integer  16 scales, [width / 2, 16, 2]     16 scales, [8, width, 2]
//
// Keys are transposed, so that 16 scores are computed side by side; two places
// of a key, or two positions of a value, lie together, as integer products take
// them in pairs. Blocks of neighbouring numbers are neighbours in memory, head
// by head, because memory is read at full speed only along runs of many pages;
// groups keep the pages together that few sequences touch.
struct KvLayout {
  static constexpr int64_t kPositionsPerLine = 16;
  static constexpr int64_t kBlocksPerGroup = 32;
  // Of integers: the sums of their products fit 32 bits.
  static constexpr int64_t kMaxIntegerHeadDim = 256;

  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 16;  // positions per block; a multiple of 16
  KvCacheDtype dtype = KvCacheDtype::kF32;

  constexpr int64_t element_bytes() const { return LayoutOf(dtype).bytes; }
  // head_dim rounded up to a multiple of 16; the rest is never written.
  constexpr int64_t width() const { return (head_dim + 15) / 16 * 16; }
  // The scales at the start of a line.
  constexpr int64_t scale_bytes() const {
    return IsInteger(dtype) ? kPositionsPerLine * 4 : 0;
  }
  constexpr int64_t line_bytes() const {
    return scale_bytes() + kPositionsPerLine * width() * element_bytes();
  }
  // Keys, or values, of one block and head.
  constexpr int64_t block_bytes() const {
    return block_size / kPositionsPerLine * line_bytes();
  }
  // From the keys of a block and head to its values.
  constexpr int64_t values_offset() const {
    return kBlocksPerGroup * block_bytes();
  }
  constexpr int64_t group_bytes() const {
    return num_key_value_heads * 2 * values_offset();
  }
  constexpr int64_t layer_bytes(int64_t num_blocks) const {
    return (num_blocks + kBlocksPerGroup - 1) / kBlocksPerGroup * group_bytes();
  }
  // Of the keys of a block and head, from the start of the layer.
  constexpr int64_t keys_offset(int64_t block, int64_t head) const {
    return block / kBlocksPerGroup * group_bytes() +
           head * 2 * values_offset() + block % kBlocksPerGroup * block_bytes();
  }
  // Of the line of a position, from the start of its block.
  constexpr int64_t line_offset(int64_t position) const {
    return position % block_size / kPositionsPerLine * line_bytes();
  }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_
