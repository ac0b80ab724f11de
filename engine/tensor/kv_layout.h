// Where keys and values lie in the paged cache of one layer: agreed between the
// room that stores them and the one that reads them.
#ifndef HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_
#define HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_

#include <cstdint>

namespace headrace {

// Float32, slowest first:
//
//   keys and values of a group:  [num_key_value_heads, 2, blocks_per_group]
//   keys of a block and head:    [block_size / 16] lines of [width, 16]
//   values of a block and head:  [block_size / 16] lines of [16, width]
//
// A line is 16 neighbouring positions. Keys are transposed in it, so that 16
// scores are computed side by side. Blocks of neighbouring numbers are
// neighbours in memory, head by head, because memory is read at full speed only
// along runs of many pages; groups keep the pages together that few sequences
// touch.
struct KvLayout {
  static constexpr int64_t kPositionsPerLine = 16;
  static constexpr int64_t kBlocksPerGroup = 32;

  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 16;  // positions per block; a multiple of 16

  // head_dim rounded up to a multiple of 16; the rest is never written.
  constexpr int64_t width() const { return (head_dim + 15) / 16 * 16; }
  constexpr int64_t line_floats() const { return kPositionsPerLine * width(); }
  // Keys, or values, of one block and head.
  constexpr int64_t block_floats() const { return block_size * width(); }
  // From the keys of a block and head to its values.
  constexpr int64_t values_offset() const {
    return kBlocksPerGroup * block_floats();
  }
  constexpr int64_t group_floats() const {
    return num_key_value_heads * 2 * values_offset();
  }
  constexpr int64_t layer_floats(int64_t num_blocks) const {
    return (num_blocks + kBlocksPerGroup - 1) / kBlocksPerGroup *
           group_floats();
  }
  // Of the keys of a block and head, from the start of the layer.
  constexpr int64_t keys_offset(int64_t block, int64_t head) const {
    return block / kBlocksPerGroup * group_floats() +
           head * 2 * values_offset() +
           block % kBlocksPerGroup * block_floats();
  }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_KV_LAYOUT_H_
