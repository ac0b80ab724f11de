// Where the bytes of packed weights and of quantised rows are; described in
// engine/ops/README.md. Shared by packing and by the kernels.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_
#define HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "engine/tensor/dtype.h"
#include "engine/tensor/quantized_format.h"

namespace headrace::kernels {

constexpr int64_t kPanelColumns = 64;  // output columns packed together
constexpr int64_t kBlockSize = 512;    // k of one chain of the exact mode

// int8 rows for weights with a scale of the row are stored as bytes a + 128: of
// the factors of a 4-way dot product, one is unsigned.
constexpr int kInt8RowOffset = 128;
// For so many inputs 127 * 128 each stay within an int32.
constexpr int64_t kMostInt8Inputs = int64_t{1} << 17;

// A step is 4 k of all columns: what one 4-way dot product takes.
constexpr int kGroupSteps = static_cast<int>(kGroupSize) / 4;
constexpr int kGroupPairs = kGroupSteps / 2;
constexpr int64_t kStepBytes = kPanelColumns * 4;  // a byte per number

// Bits of a number that are not in its nibble, where it has one.
constexpr int HighBits(const QuantizedFormat& format) {
  return format.bits == 8 ? 0 : format.bits - 4;
}

// Which row of kStepBytes of a group's numbers holds the high bits of a step…
constexpr int HighBitsRow(const QuantizedFormat& format, int step) {
  const int index = step * HighBits(format) / 8;  // of those rows
  return index + index * kGroupPairs / HighBits(format);
}

// …and which one the nibbles of steps 2 * pair and 2 * pair + 1, or the bytes
// of the first of them.
constexpr int PairRow(const QuantizedFormat& format, int pair) {
  if (format.bits == 8) return 2 * pair;
  const int rows_before = 2 * pair * HighBits(format) / 8;  // of high bits
  return pair + (HighBits(format) > 0 ? rows_before + 1 : 0);
}

// Of a panel, if rows of the matrix have a scale: 64 of them in F32, then 64
// sums of 128 q over all k, in int32 that wraps.
constexpr int64_t PanelHeaderBytes(const QuantizedFormat& format) {
  return format.row_scale ? kPanelColumns * 8 : 0;
}

// Of a block: F16 scales, then minima in F16 or zero points of 8 bits.
constexpr int64_t BlockHeaderBytes(const QuantizedFormat& format) {
  if (format.row_scale) return 0;
  const int minimum = format.zero_points ? 1 : format.has_minimum ? 2 : 0;
  return kPanelColumns * (2 + minimum);
}

// Of a group: 8-bit factors of the scales, then of the minima.
constexpr int64_t GroupHeaderBytes(const QuantizedFormat& format) {
  if (format.groups_per_block == 1) return 0;
  return kPanelColumns *
         (format.scales_per_group + (format.has_minimum ? 1 : 0));
}

constexpr int64_t GroupBytes(const QuantizedFormat& format) {
  return GroupHeaderBytes(format) +
         kPanelColumns * kGroupSize * format.bits / 8;
}

constexpr int64_t BlockBytes(const QuantizedFormat& format) {
  return BlockHeaderBytes(format) +
         format.groups_per_block * GroupBytes(format);
}

// From the panel's first byte to the block of group `group`; without a header
// of the panel, from the first byte of any block to one that follows.
constexpr int64_t BlockOffset(const QuantizedFormat& format, int64_t group) {
  return PanelHeaderBytes(format) +
         group / format.groups_per_block * BlockBytes(format);
}

// From the first byte of the group's block to the group.
constexpr int64_t OffsetInBlock(const QuantizedFormat& format, int64_t group) {
  return BlockHeaderBytes(format) +
         group % format.groups_per_block * GroupBytes(format);
}

constexpr int64_t PanelBytes(DType dtype, int64_t in) {
  return IsQuantized(dtype) ? BlockOffset(FormatOf(dtype), in / kGroupSize)
                            : in * kPanelColumns * LayoutOf(dtype).bytes;
}

// One panel: 64 output columns of all `in` k.
struct Panel {
  DType dtype = DType::kF32;
  int64_t in = 0;
  const std::byte* data = nullptr;
};

// 32 values of a row in the fast mode, for weights with scales of groups.
struct alignas(16) QuantizedGroup {
  int8_t values[kGroupSize];
  float scale;       // sa
  float scaled_sum;  // fl(sa * float(sum of values))
  // Minus the sum of all values and of the first 16. Times the offset of the
  // weights, it is what a dot product with stored numbers starts from.
  int32_t negative_sum;
  int32_t negative_half_sum;
};
static_assert(sizeof(QuantizedGroup) == 48);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_
