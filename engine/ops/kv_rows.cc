#include "engine/ops/kv_rows.h"

#include <algorithm>

#include "absl/log/check.h"
#include "engine/ops/kernels/kv_integers.h"
#include "engine/tensor/half.h"

namespace headrace {
namespace {

constexpr int64_t kLine = KvLayout::kPositionsPerLine;

// Rows of one task: fewer are not worth waking a thread for.
constexpr int64_t kTaskRows = 64;

// Keys or values of some rows of one head that share a line, rounded.
class Integers {
 public:
  Integers(const KvLayout& layout, const float* src, int64_t row_stride,
           int64_t count)
      : width_(layout.width()) {
    for (int64_t i = 0; i < count; ++i) {
      const float* row = src + i * row_stride;
      float* end = std::copy_n(row, layout.head_dim, floats_ + i * width_);
      std::fill(end, floats_ + (i + 1) * width_, 0.0f);
    }
    kernels::QuantizeToInt16(floats_, width_, count,
                             kernels::KvLimit(layout.dtype), values_, scales_);
  }
  float scale(int64_t row) const { return scales_[row]; }
  const int16_t* row(int64_t row) const { return values_ + row * width_; }

 private:
  static constexpr int64_t kSize = kLine * KvLayout::kMaxIntegerHeadDim;

  int64_t width_;
  alignas(64) float floats_[kSize];
  int16_t values_[kSize];
  float scales_[kLine];
};

// Index of place `d` of the key, or value, at `slot` of its line.
int64_t KeyIndex(const KvLayout& layout, int64_t slot, int64_t d) {
  return IsInteger(layout.dtype) ? (d / 2 * kLine + slot) * 2 + d % 2
                                 : d * kLine + slot;
}
int64_t ValueIndex(const KvLayout& layout, int64_t slot, int64_t d) {
  return IsInteger(layout.dtype)
             ? (slot / 2 * layout.width() + d) * 2 + slot % 2
             : slot * layout.width() + d;
}

// Rows of one head that share a line.
struct LineRows {
  const float* k;
  const float* v;
  int64_t k_row_stride;
  int64_t v_row_stride;
  int64_t count;
  int64_t slot;  // of the first, in the line
};

float KeepFloat(float value) { return value; }

template <class T, T (*kRound)(float)>
void StoreFloats(const KvLayout& layout, const LineRows& rows,
                 std::byte* key_line, std::byte* value_line) {
  T* keys = reinterpret_cast<T*>(key_line);
  for (int64_t d = 0; d < layout.head_dim; ++d) {
    for (int64_t i = 0; i < rows.count; ++i) {
      keys[KeyIndex(layout, rows.slot + i, d)] =
          kRound(rows.k[i * rows.k_row_stride + d]);
    }
  }
  T* values = reinterpret_cast<T*>(value_line);
  for (int64_t i = 0; i < rows.count; ++i) {
    const float* v = rows.v + i * rows.v_row_stride;
    std::transform(v, v + layout.head_dim,
                   values + ValueIndex(layout, rows.slot + i, 0), kRound);
  }
}

template <class T>
void StoreIntegers(const KvLayout& layout, const LineRows& rows,
                   std::byte* key_line, std::byte* value_line) {
  auto* key_scales = reinterpret_cast<float*>(key_line);
  auto* value_scales = reinterpret_cast<float*>(value_line);
  T* keys = reinterpret_cast<T*>(key_line + layout.scale_bytes());
  T* values = reinterpret_cast<T*>(value_line + layout.scale_bytes());
  const Integers k(layout, rows.k, rows.k_row_stride, rows.count);
  const Integers v(layout, rows.v, rows.v_row_stride, rows.count);
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t slot = rows.slot + i;
    key_scales[slot] = k.scale(i);
    T* key = keys + KeyIndex(layout, slot, 0);
    for (int64_t d = 0; d < layout.head_dim; d += 2) {
      key[d * kLine] = static_cast<T>(k.row(i)[d]);
      key[d * kLine + 1] = static_cast<T>(k.row(i)[d + 1]);
    }
    value_scales[slot] = v.scale(i);
    T* value = values + ValueIndex(layout, slot, 0);
    for (int64_t d = 0; d < layout.head_dim; ++d) {
      value[2 * d] = static_cast<T>(v.row(i)[d]);
    }
  }
}

// Rows [begin, end).
void StoreRows(const KvLayout& layout, const KvRows& rows, int64_t begin,
               int64_t end, std::byte* layer) {
  for (int64_t row = begin; row < end;) {
    const int64_t position = rows.first_position + row;
    const int64_t slot = position % kLine;
    const int64_t count = std::min(kLine - slot, end - row);
    const int64_t block =
        rows.block_table[static_cast<size_t>(position / layout.block_size)];
    for (int64_t head = 0; head < layout.num_key_value_heads; ++head) {
      std::byte* keys = layer + layout.keys_offset(block, head) +
                        layout.line_offset(position);
      std::byte* values = keys + layout.values_offset();
      const LineRows line = {
          .k = rows.k + row * rows.k_row_stride + head * layout.head_dim,
          .v = rows.v + row * rows.v_row_stride + head * layout.head_dim,
          .k_row_stride = rows.k_row_stride,
          .v_row_stride = rows.v_row_stride,
          .count = count,
          .slot = slot};
      switch (layout.dtype) {
        case KvCacheDtype::kF32:
          StoreFloats<float, KeepFloat>(layout, line, keys, values);
          break;
        case KvCacheDtype::kBF16:
          StoreFloats<uint16_t, FloatToBFloat16>(layout, line, keys, values);
          break;
        case KvCacheDtype::kInt16:
          StoreIntegers<int16_t>(layout, line, keys, values);
          break;
        case KvCacheDtype::kInt8:
          StoreIntegers<int8_t>(layout, line, keys, values);
          break;
      }
    }
    row += count;
  }
}

using IndexOf = int64_t (*)(const KvLayout& layout, int64_t slot, int64_t d);

// What is in a line at the slot of the place.
void LoadFromLine(const KvPlace& place, const std::byte* line, IndexOf index_of,
                  float* dst) {
  const KvLayout& layout = place.layout;
  const int64_t slot = place.position % kLine;
  const std::byte* elements = line + layout.scale_bytes();
  const auto* scales = reinterpret_cast<const float*>(line);
  for (int64_t d = 0; d < layout.head_dim; ++d) {
    const int64_t index = index_of(layout, slot, d);
    switch (layout.dtype) {
      case KvCacheDtype::kF32:
        dst[d] = reinterpret_cast<const float*>(elements)[index];
        break;
      case KvCacheDtype::kBF16:
        dst[d] =
            BFloat16ToFloat(reinterpret_cast<const uint16_t*>(elements)[index]);
        break;
      case KvCacheDtype::kInt16:
        dst[d] = scales[slot] *
                 static_cast<float>(
                     reinterpret_cast<const int16_t*>(elements)[index]);
        break;
      case KvCacheDtype::kInt8:
        dst[d] = scales[slot] *
                 static_cast<float>(
                     reinterpret_cast<const int8_t*>(elements)[index]);
        break;
    }
  }
}

const std::byte* KeyLine(const KvPlace& place) {
  const int64_t block = place.block_table[static_cast<size_t>(
      place.position / place.layout.block_size)];
  return place.layer + place.layout.keys_offset(block, place.head) +
         place.layout.line_offset(place.position);
}

}  // namespace

void StoreKeysAndValues(ThreadTeam& team, const KvLayout& layout,
                        const KvRows& rows, std::byte* layer) {
  CHECK_GE(static_cast<int64_t>(rows.block_table.size()) * layout.block_size,
           rows.first_position + rows.num_rows);
  const int64_t first = rows.first_position / kLine * kLine;
  const int64_t end = rows.first_position + rows.num_rows;
  // Tasks begin at lines, so that no two write the same one.
  team.ParallelFor(
      (end - first + kTaskRows - 1) / kTaskRows, [&](int64_t task, int) {
        const int64_t begin = first + task * kTaskRows - rows.first_position;
        StoreRows(layout, rows, std::max<int64_t>(begin, 0),
                  std::min(begin + kTaskRows, rows.num_rows), layer);
      });
}

void LoadKey(const KvPlace& place, float* dst) {
  LoadFromLine(place, KeyLine(place), KeyIndex, dst);
}

void LoadValue(const KvPlace& place, float* dst) {
  LoadFromLine(place, KeyLine(place) + place.layout.values_offset(), ValueIndex,
               dst);
}

}  // namespace headrace
