// See attention_kernel.h.
#include "engine/ops/kernels/attention_kernel.h"

#include <algorithm>
#include <cfloat>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/attention_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/activation_math-inl.h"
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

using Floats = hn::CappedTag<float, kSumLanes>;
using Vector = hn::Vec<Floats>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
// A line is 16 floats: keys at one of head_dim's places, or 16 of the values
// of one key.
constexpr int kLine = static_cast<int>(kKeysPerLine);
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

// 64 keys at an absolute multiple of 64, and where they lie.
struct Tile {
  int64_t first_key;
  const float* keys[kLinesPerTile];    // [head_dim, block_size], 16 columns
  const float* values[kLinesPerTile];  // [16, value_stride]
};

// Rows [begin, end) of the call.
struct RowRange {
  int64_t begin;
  int64_t end;
  int size() const { return static_cast<int>(end - begin); }
};

// The keys that a token sees in a tile.
HWY_INLINE KeyRange VisibleKeys(const AttentionRows& rows, const Tile& tile,
                                int64_t token) {
  const int64_t last = rows.first_position + token - tile.first_key;
  return {std::max<int64_t>(0, last - rows.window + 1),
          std::min<int64_t>(kKeysPerTile, last + 1)};
}

// What all rows of the range see together: at least, or at the most.
HWY_INLINE KeyRange CommonKeys(const AttentionRows& rows, const Tile& tile,
                               RowRange range) {
  return {VisibleKeys(rows, tile, (range.end - 1) / rows.num_heads).begin,
          VisibleKeys(rows, tile, range.begin / rows.num_heads).end};
}
HWY_INLINE KeyRange UnitedKeys(const AttentionRows& rows, const Tile& tile,
                               RowRange range) {
  return {VisibleKeys(rows, tile, range.begin / rows.num_heads).begin,
          VisibleKeys(rows, tile, (range.end - 1) / rows.num_heads).end};
}

// --- Scores -----------------------------------------------------------------

struct ScoreBlock {
  const float* q;            // [rows, head_dim]
  const float* const* keys;  // one per line
  int64_t head_dim;
  int64_t key_stride;
  float* scores;  // [rows, kKeysPerTile]
};

// scores[r][j] = chain over d ascending of q[r][d] * k[d][j], from 0.
template <int kRows, int kLines>
HWY_INLINE void ComputeScores(const ScoreBlock& block) {
  constexpr int kColumns = kLines * kLineVectors;
  const Floats d;
  Vector sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sums[r][c] = hn::Zero(d);
  }
  const float* keys[kLines];
  for (int l = 0; l < kLines; ++l) keys[l] = block.keys[l];
  const float* q = block.q;
  for (int64_t i = 0; i < block.head_dim; ++i) {
    Vector k[kColumns];
    for (int c = 0; c < kColumns; ++c) {
      k[c] = hn::LoadU(d, keys[c / kLineVectors] + i * block.key_stride +
                              c % kLineVectors * kLanes);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vector x = hn::Set(d, q[r * block.head_dim + i]);
      for (int c = 0; c < kColumns; ++c) {
        sums[r][c] = hn::MulAdd(x, k[c], sums[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      hn::Store(sums[r][c], d, block.scores + r * kKeysPerTile + c * kLanes);
    }
  }
}

template <int kRows, int kLines>
HWY_INLINE void ChooseScores(int rows, int lines, const ScoreBlock& block) {
  if (lines < kLines) {
    if constexpr (kLines > 1) {
      ChooseScores<kRows, kLines - 1>(rows, lines, block);
    }
  } else if (rows < kRows) {
    if constexpr (kRows > 1) {
      ChooseScores<kRows - 1, kLines>(rows, lines, block);
    }
  } else {
    ComputeScores<kRows, kLines>(block);
  }
}

// Scores of the rows for every line of which one of them sees a key.
HWY_INLINE void ScoreRows(const AttentionRows& rows, const Tile& tile,
                          RowRange range, AttentionWorkspace workspace) {
  const KeyRange keys = UnitedKeys(rows, tile, range);
  const int64_t end_line = (keys.end + kLine - 1) / kLine;
  for (int64_t line = keys.begin / kLine; line < end_line;
       line += kBlockLines) {
    const ScoreBlock block = {
        .q = workspace.q + range.begin * rows.head_dim,
        .keys = tile.keys + line,
        .head_dim = rows.head_dim,
        .key_stride = rows.block_size,
        .scores = workspace.scores + range.begin * kKeysPerTile + line * kLine};
    const int lines =
        static_cast<int>(std::min<int64_t>(kBlockLines, end_line - line));
    ChooseScores<kBlockRows, kBlockLines>(range.size(), lines, block);
  }
}

// --- Softmax ----------------------------------------------------------------

HWY_INLINE float ExpOf(float x) {
  const Floats d;
  return hn::GetLane(ExpNonPositive(d, hn::Set(d, x)));
}

// Turns the scores of one row in place into exponentials relative to its new
// maximum (0 where masked) and brings the row's state up to it.
HWY_INLINE void SoftmaxRow(KeyRange keys, float* scores, float* sums,
                           float& max, float* out, int64_t width) {
  constexpr int kColumns = static_cast<int>(kLinesPerTile) * kLineVectors;
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  Vector s[kColumns];
  Vector tile_max = hn::Set(d, -FLT_MAX);
  const bool masked = keys.begin > 0 || keys.end < kKeysPerTile;
  const auto begin = hn::Set(di, static_cast<int32_t>(keys.begin));
  const auto end = hn::Set(di, static_cast<int32_t>(keys.end));
  const auto visible = [&](int c) HWY_ATTR {
    const auto key = hn::Iota(di, c * kLanes);
    return hn::RebindMask(d, hn::And(hn::Ge(key, begin), hn::Lt(key, end)));
  };
  for (int c = 0; c < kColumns; ++c) {
    s[c] = hn::Load(d, scores + c * kLanes);
    if (masked) {
      s[c] = hn::IfThenElse(visible(c), s[c], hn::Set(d, -FLT_MAX));
    }
    tile_max = hn::Max(tile_max, s[c]);
  }
  const float new_max = std::max(max, hn::ReduceMax(d, tile_max));
  for (int c = 0; c < kColumns; ++c) {
    s[c] = ExpNonPositive(d, hn::Sub(s[c], hn::Set(d, new_max)));
    if (masked) s[c] = hn::IfThenElseZero(visible(c), s[c]);
    hn::Store(s[c], d, scores + c * kLanes);
  }
  const float alpha = ExpOf(max - new_max);
  const Vector a = hn::Set(d, alpha);
  for (int v = 0; v < kLineVectors; ++v) {
    const Vector low = hn::Add(s[v], s[v + kLineVectors]);
    const Vector high =
        hn::Add(s[v + 2 * kLineVectors], s[v + 3 * kLineVectors]);
    const Vector sum = hn::Load(d, sums + v * kLanes);
    hn::Store(hn::MulAdd(sum, a, hn::Add(low, high)), d, sums + v * kLanes);
  }
  max = new_max;
  if (alpha == 1.0f) return;  // multiplying by 1 changes nothing
  for (int64_t i = 0; i < width; i += kLanes) {
    hn::Store(hn::Mul(hn::Load(d, out + i), a), d, out + i);
  }
}

// --- Values -----------------------------------------------------------------

struct ValueBlock {
  const float* p;              // [rows, kKeysPerTile]
  const float* const* values;  // one per line of keys
  int64_t value_stride;
  int64_t column;  // first value of the block
  KeyRange keys;
  float* out;  // [rows, value_stride]
};

// out[r][c] continues its chain over the keys, ascending: + p[r][j] * v[j][c].
template <int kRows, int kLines>
HWY_INLINE void ComputeValues(const ValueBlock& block) {
  constexpr int kColumns = kLines * kLineVectors;
  const Floats d;
  float* out = block.out + block.column;
  Vector sums[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      sums[r][c] = hn::Load(d, out + r * block.value_stride + c * kLanes);
    }
  }
  for (int64_t begin = block.keys.begin; begin < block.keys.end;) {
    const int64_t line = begin / kLine;
    const int64_t end = std::min(block.keys.end, (line + 1) * kLine);
    const float* values = block.values[line] + block.column +
                          (begin - line * kLine) * block.value_stride;
    for (int64_t key = begin; key < end; ++key) {
      Vector v[kColumns];
      for (int c = 0; c < kColumns; ++c) {
        v[c] = hn::LoadU(d, values + c * kLanes);
      }
      values += block.value_stride;
      for (int r = 0; r < kRows; ++r) {
        const Vector p = hn::Set(d, block.p[r * kKeysPerTile + key]);
        for (int c = 0; c < kColumns; ++c) {
          sums[r][c] = hn::MulAdd(p, v[c], sums[r][c]);
        }
      }
    }
    begin = end;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      hn::Store(sums[r][c], d, out + r * block.value_stride + c * kLanes);
    }
  }
}

template <int kRows, int kLines>
HWY_INLINE void ChooseValues(int rows, int lines, const ValueBlock& block) {
  if (lines < kLines) {
    if constexpr (kLines > 1) {
      ChooseValues<kRows, kLines - 1>(rows, lines, block);
    }
  } else if (rows < kRows) {
    if constexpr (kRows > 1) {
      ChooseValues<kRows - 1, kLines>(rows, lines, block);
    }
  } else {
    ComputeValues<kRows, kLines>(block);
  }
}

// Adds the values of `keys`, which every row of the range sees.
HWY_INLINE void AddValues(const AttentionRows& rows, const Tile& tile,
                          RowRange range, KeyRange keys, const float* scores,
                          float* out) {
  if (keys.empty()) return;
  ValueBlock block = {.p = scores + range.begin * kKeysPerTile,
                      .values = tile.values,
                      .value_stride = rows.value_stride,
                      .column = 0,
                      .keys = keys,
                      .out = out + range.begin * rows.value_stride};
  for (; block.column < rows.value_stride;
       block.column += kBlockLines * kLine) {
    const int64_t lines = (rows.value_stride - block.column) / kLine;
    ChooseValues<kBlockRows, kBlockLines>(
        range.size(), static_cast<int>(std::min<int64_t>(kBlockLines, lines)),
        block);
  }
}

// Values of the keys that each row sees: those that all rows of the range see
// together, before and after them each token's own.
HWY_INLINE void AddVisibleValues(const AttentionRows& rows, const Tile& tile,
                                 RowRange range, const float* scores,
                                 float* out) {
  const auto for_each_token = [&](auto keys_of) HWY_ATTR {
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t token = begin / rows.num_heads;
      const int64_t end = std::min(range.end, (token + 1) * rows.num_heads);
      AddValues(rows, tile, {begin, end},
                keys_of(VisibleKeys(rows, tile, token)), scores, out);
      begin = end;
    }
  };
  const KeyRange common = CommonKeys(rows, tile, range);
  if (common.empty()) {
    for_each_token([](KeyRange visible) HWY_ATTR { return visible; });
    return;
  }
  for_each_token([&](KeyRange visible) HWY_ATTR {
    return KeyRange{visible.begin, common.begin};
  });
  AddValues(rows, tile, range, common, scores, out);
  for_each_token([&](KeyRange visible)
                     HWY_ATTR { return KeyRange{common.end, visible.end}; });
}

// --- Tiles and parts --------------------------------------------------------

// Finds the lines of keys [keys.begin, keys.end) of the tile; the others are
// never read.
HWY_INLINE void LocateTile(const AttentionRows& rows, KeyRange keys,
                           Tile& tile) {
  const int64_t end_line = (keys.end + kLine - 1) / kLine;
  for (int64_t line = keys.begin / kLine; line < end_line; ++line) {
    const int64_t position = tile.first_key + line * kLine;
    const int64_t block = rows.block_table[position / rows.block_size];
    const int64_t offset = position % rows.block_size;
    tile.keys[line] = rows.keys + block * rows.block_stride + offset;
    tile.values[line] =
        rows.values + block * rows.block_stride + offset * rows.value_stride;
  }
}

HWY_INLINE void AttendTile(const AttentionRows& rows, const Tile& tile,
                           AttentionWorkspace workspace, AttentionState state) {
  const int64_t num_rows = rows.num_rows();
  const auto for_each_block = [&](auto function) HWY_ATTR {
    for (int64_t row = 0; row < num_rows; row += kBlockRows) {
      const RowRange range = {row, std::min(row + kBlockRows, num_rows)};
      if (!UnitedKeys(rows, tile, range).empty()) function(range);
    }
  };
  for_each_block([&](RowRange range)
                     HWY_ATTR { ScoreRows(rows, tile, range, workspace); });
  for (int64_t row = 0; row < num_rows; ++row) {
    const KeyRange keys = VisibleKeys(rows, tile, row / rows.num_heads);
    if (keys.empty()) continue;
    SoftmaxRow(keys, workspace.scores + row * kKeysPerTile,
               workspace.sums + row * kSumLanes, state.max[row],
               state.out + row * rows.value_stride, rows.value_stride);
  }
  for_each_block([&](RowRange range) HWY_ATTR {
    AddVisibleValues(rows, tile, range, workspace.scores, state.out);
  });
}

void ScaleQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  const int64_t token_floats = rows.num_heads * rows.head_dim;
  for (int64_t token = 0; token < rows.num_tokens; ++token) {
    const float* src = rows.q + token * rows.q_token_stride;
    float* dst = workspace.q + token * token_floats;
    for (int64_t i = 0; i < token_floats; ++i) dst[i] = src[i] * rows.scale;
  }
}

void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state) {
  const int64_t num_rows = rows.num_rows();
  std::fill_n(part_state.max, num_rows, -FLT_MAX);
  std::fill_n(part_state.out, num_rows * rows.value_stride, 0.0f);
  std::fill_n(workspace.sums, num_rows * kSumLanes, 0.0f);
  const int64_t begin =
      std::max(part * kKeysPerPart, rows.first_position - rows.window + 1);
  const int64_t end = std::min((part + 1) * kKeysPerPart,
                               rows.first_position + rows.num_tokens);
  for (int64_t first_key = begin / kKeysPerTile * kKeysPerTile; first_key < end;
       first_key += kKeysPerTile) {
    Tile tile = {.first_key = first_key};
    LocateTile(rows,
               {std::max<int64_t>(0, begin - first_key),
                std::min(kKeysPerTile, end - first_key)},
               tile);
    AttendTile(rows, tile, workspace, part_state);
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    part_state.sum[row] = SumOfLanes(workspace.sums + row * kSumLanes);
  }
}

void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  const Floats d;
  const int64_t width = rows.value_stride;
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    if (part_state.sum[row] == 0.0f) continue;
    const float* part = part_state.out + row * width;
    float* out = total.out + row * width;
    if (total.sum[row] == 0.0f) {
      total.max[row] = part_state.max[row];
      total.sum[row] = part_state.sum[row];
      std::copy_n(part, width, out);
      continue;
    }
    const float max = std::max(total.max[row], part_state.max[row]);
    const Vector old_factor = hn::Set(d, ExpOf(total.max[row] - max));
    const Vector part_factor = hn::Set(d, ExpOf(part_state.max[row] - max));
    total.max[row] = max;
    total.sum[row] = hn::GetLane(
        hn::MulAdd(hn::Set(d, part_state.sum[row]), part_factor,
                   hn::Mul(hn::Set(d, total.sum[row]), old_factor)));
    for (int64_t i = 0; i < width; i += kLanes) {
      const Vector old = hn::Mul(hn::Load(d, out + i), old_factor);
      hn::Store(hn::MulAdd(hn::Load(d, part + i), part_factor, old), d,
                out + i);
    }
  }
}

void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    const float* out = total.out + row * rows.value_stride;
    float* head = dst + row / rows.num_heads * dst_token_stride +
                  row % rows.num_heads * rows.head_dim;
    const float factor = 1.0f / total.sum[row];
    for (int64_t i = 0; i < rows.head_dim; ++i) head[i] = out[i] * factor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ScaleQueries);
HWY_EXPORT(AttendPart);
HWY_EXPORT(MergePart);
HWY_EXPORT(FinishRows);

void ScaleQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  HWY_DYNAMIC_DISPATCH(ScaleQueries)(rows, workspace);
}
void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state) {
  HWY_DYNAMIC_DISPATCH(AttendPart)(rows, part, workspace, part_state);
}
void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  HWY_DYNAMIC_DISPATCH(MergePart)(rows, part_state, total);
}
void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  HWY_DYNAMIC_DISPATCH(FinishRows)(rows, total, dst, dst_token_stride);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
