// A tile of 64 keys at an absolute multiple of 64: where its lines are in
// memory, and which of its keys each row sees.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_TILE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_TILE_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_TILE_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kSumLanes>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
// A line: 16 keys at one place of the head, or 16 places of one value.
constexpr int kLine = static_cast<int>(KvLayout::kPositionsPerLine);
constexpr int kLineVectors = kLine / kLanes;
static_assert(kSumLanes == kLine);

// Register tiles: kBlockRows rows by kBlockLines lines of running sums.
constexpr bool kManyRegisters = kLanes == 16 || !HWY_ARCH_X86;
constexpr int kBlockRows = kManyRegisters || kLineVectors <= 2 ? 6 : 2;
constexpr int kBlockLines = kLanes == 16 ? 4 : 1;

// Keys of a tile, counted from its first.
struct KeyRange {
  int64_t begin;
  int64_t end;
  bool empty() const { return end <= begin; }
};

// Rows of the call.
struct RowRange {
  int64_t begin;
  int64_t end;
  int size() const { return static_cast<int>(end - begin); }
};

// Whether the rows are so few that memory is slower than arithmetic.
HWY_INLINE bool IsStreaming(const AttentionRows& rows) {
  return rows.num_rows() <= kMaxStreamingRows;
}

// What becomes of a tile.
struct TileScores {
  float* scores;     // [rows, kKeysPerTile]; later the weights of the values
  float* factors;    // [rows], of what was added up before
  int16_t* weights;  // [rows, kKeysPerTile], of the values, if integers
  float* weight_scales;  // [rows]
};

struct Tile {
  int64_t first_key;
  const std::byte* keys[kLinesPerTile];  // lines, as KvLayout describes them
  const std::byte* values[kLinesPerTile];
};

// Finds the lines that hold `keys` of the tile; no others may be read.
HWY_INLINE Tile LocateTile(const AttentionRows& rows, int64_t first_key,
                           KeyRange keys) {
  const KvLayout& layout = rows.layout;
  Tile tile = {.first_key = first_key};
  for (int64_t line = keys.begin / kLine; line * kLine < keys.end; ++line) {
    const int64_t position = first_key + line * kLine;
    const int64_t block = rows.block_table[position / layout.block_size];
    tile.keys[line] = rows.kv + layout.keys_offset(block, rows.kv_head) +
                      layout.line_offset(position);
    tile.values[line] = tile.keys[line] + layout.values_offset();
  }
  return tile;
}

// The keys that a token sees in a tile.
HWY_INLINE KeyRange VisibleKeys(const AttentionRows& rows, const Tile& tile,
                                int64_t token) {
  const int64_t last = rows.first_position + token - tile.first_key;
  return {std::max<int64_t>(0, last - rows.window + 1),
          std::min<int64_t>(kKeysPerTile, last + 1)};
}

HWY_INLINE KeyRange KeysOfRow(const AttentionRows& rows, const Tile& tile,
                              int64_t row) {
  return VisibleKeys(rows, tile, row / rows.num_heads);
}

// The keys that all rows of the range see.
HWY_INLINE KeyRange CommonKeys(const AttentionRows& rows, const Tile& tile,
                               RowRange range) {
  return {VisibleKeys(rows, tile, (range.end - 1) / rows.num_heads).begin,
          VisibleKeys(rows, tile, range.begin / rows.num_heads).end};
}

// The keys that some row of the range sees.
HWY_INLINE KeyRange UnitedKeys(const AttentionRows& rows, const Tile& tile,
                               RowRange range) {
  return {VisibleKeys(rows, tile, range.begin / rows.num_heads).begin,
          VisibleKeys(rows, tile, (range.end - 1) / rows.num_heads).end};
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
