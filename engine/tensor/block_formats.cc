#include "engine/tensor/block_formats.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/half.h"
#include "engine/tensor/quantized_format.h"

namespace headrace {
namespace {

uint16_t LoadU16(const std::byte* src) {
  uint16_t value;
  std::memcpy(&value, src, sizeof(value));
  return value;
}

int LoadU8(const std::byte* src) { return std::to_integer<int>(*src); }

void ExpandF32(const std::byte* src, std::span<float> dst) {
  if (!dst.empty()) std::memcpy(dst.data(), src, dst.size_bytes());
}

void ExpandF16(const std::byte* src, std::span<float> dst) {
  for (float& value : dst) {
    value = HalfToFloat(LoadU16(src));
    src += 2;
  }
}

void ExpandBF16(const std::byte* src, std::span<float> dst) {
  for (float& value : dst) {
    value = BFloat16ToFloat(LoadU16(src));
    src += 2;
  }
}

// The block formats: ggml-common.h and dequantize_row_* of ggml (2025-02).
// Each reads one group; `block` is the block that the group is in, `index` its
// place there.

// 16 bytes: the low nibbles are numbers 0..15, the high ones 16..31.
void ReadHalves(const std::byte* src, StoredGroup& group) {
  for (int64_t i = 0; i < kGroupSize / 2; ++i) {
    group.numbers[i] = static_cast<uint8_t>(LoadU8(src + i) & 15);
    group.numbers[i + kGroupSize / 2] =
        static_cast<uint8_t>(LoadU8(src + i) >> 4);
  }
}

// 32 bits, the fifth bit of each number.
void AddFifthBits(const std::byte* src, StoredGroup& group) {
  uint32_t bits;
  std::memcpy(&bits, src, sizeof(bits));
  for (int64_t i = 0; i < kGroupSize; ++i) {
    group.numbers[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
  }
}

// 32 signed bytes.
void ReadSigned(const std::byte* src, StoredGroup& group) {
  for (int64_t i = 0; i < kGroupSize; ++i) {
    group.numbers[i] = static_cast<uint8_t>(LoadU8(src + i) ^ 0x80);
  }
}

// f16 d @0, i8 q[32] @2
void ReadQ8_0(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  ReadSigned(block + 2, group);
}

// f16 d @0, nibbles[16] @2
void ReadQ4_0(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  ReadHalves(block + 2, group);
}

// f16 d @0, f16 m @2, nibbles[16] @4
void ReadQ4_1(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  group.minimum = LoadU16(block + 2);
  ReadHalves(block + 4, group);
}

// f16 d @0, u32 fifth bits @2, nibbles[16] @6
void ReadQ5_0(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  ReadHalves(block + 6, group);
  AddFifthBits(block + 2, group);
}

// f16 d @0, f16 m @2, u32 fifth bits @4, nibbles[16] @8
void ReadQ5_1(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  group.minimum = LoadU16(block + 2);
  ReadHalves(block + 8, group);
  AddFifthBits(block + 4, group);
}

// f16 d @0, f16 dmin @2, u8[12] @4. Of the latter, eight factors of the scale
// and eight of the minimum, 6 bits each: bytes 0..3 hold the scales and 4..7
// the minima of groups 0..3, with the high 2 bits of those of groups 4..7 on
// top; bytes 8..11 hold the low 4 bits of the latter. dmin is subtracted.
void ReadFactorsOf6Bits(const std::byte* block, int64_t index,
                        StoredGroup& group) {
  group.scale = LoadU16(block);
  group.minimum = LoadU16(block + 2) ^ 0x8000u;
  const std::byte* factors = block + 4;
  int scale;
  int minimum;
  if (index < 4) {
    scale = LoadU8(factors + index) & 63;
    minimum = LoadU8(factors + index + 4) & 63;
  } else {
    const int low = LoadU8(factors + index + 4);
    scale = (low & 15) | LoadU8(factors + index - 4) >> 6 << 4;
    minimum = low >> 4 | LoadU8(factors + index) >> 6 << 4;
  }
  group.scale_factors[0] = static_cast<int8_t>(scale);
  group.scale_factors[1] = static_cast<int8_t>(scale);
  group.minimum_factor = static_cast<int8_t>(minimum);
}

// Two groups share 32 bytes: the first has the low nibbles, the second the high
// ones.
void ReadNibblesOfPair(const std::byte* src, int64_t index,
                       StoredGroup& group) {
  src += index / 2 * kGroupSize;
  const int shift = index % 2 == 0 ? 0 : 4;
  for (int64_t i = 0; i < kGroupSize; ++i) {
    group.numbers[i] = static_cast<uint8_t>(LoadU8(src + i) >> shift & 15);
  }
}

// Factors @0, nibbles[128] @16
void ReadQ4_K(const std::byte* block, int64_t index, StoredGroup& group) {
  ReadFactorsOf6Bits(block, index, group);
  ReadNibblesOfPair(block + 16, index, group);
}

// Factors @0, fifth bits u8[32] @16 (bit j: group j), nibbles[128] @48
void ReadQ5_K(const std::byte* block, int64_t index, StoredGroup& group) {
  ReadFactorsOf6Bits(block, index, group);
  ReadNibblesOfPair(block + 48, index, group);
  for (int64_t i = 0; i < kGroupSize; ++i) {
    const int bit = LoadU8(block + 16 + i) >> index & 1;
    group.numbers[i] |= static_cast<uint8_t>(bit << 4);
  }
}

// Low nibbles u8[128] @0, high 2 bits u8[64] @128, i8 factors[16] @192, f16 d
// @208. Per half of the block: 64 bytes of nibbles, where groups 0 and 1 have
// the low ones and 2 and 3 the high ones; 32 bytes with 2 bits of each group.
void ReadQ6_K(const std::byte* block, int64_t index, StoredGroup& group) {
  const int64_t half = index / 4;
  const int64_t quarter = index % 4;
  const std::byte* low = block + half * 64 + quarter % 2 * 32;
  const std::byte* high = block + 128 + half * 32;
  for (int64_t i = 0; i < kGroupSize; ++i) {
    const int nibble = LoadU8(low + i) >> quarter / 2 * 4 & 15;
    const int top = LoadU8(high + i) >> 2 * quarter & 3;
    group.numbers[i] = static_cast<uint8_t>(nibble | top << 4);
  }
  std::memcpy(group.scale_factors, block + 192 + 2 * index, 2);
  group.scale = LoadU16(block + 208);
}

void SetZeroPoint(int8_t zero_point, StoredGroup& group) {
  group.minimum = group.scale ^ 0x8000u;
  group.minimum_factor = zero_point;
}

// f16 d @0, i8 z @2, nibbles[16] @3
void ReadQ4_Z(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  SetZeroPoint(static_cast<int8_t>(block[2]), group);
  ReadHalves(block + 3, group);
}

// f16 d @0, i8 z @2, i8 q[32] @3
void ReadQ8_Z(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  group.scale = LoadU16(block);
  SetZeroPoint(static_cast<int8_t>(block[2]), group);
  ReadSigned(block + 3, group);
}

// f32 scale of the row @0, i8 q[32] @4
void ReadQ8_C(const std::byte* block, int64_t /*index*/, StoredGroup& group) {
  std::memcpy(&group.row_scale, block, sizeof(group.row_scale));
  std::memcpy(group.numbers, block + sizeof(group.row_scale), kGroupSize);
}

// A type of floats has a way to expand a row, a quantised one a way to read a
// group.
struct BlockFormat {
  DType dtype;
  void (*expand)(const std::byte* src, std::span<float> dst);
  void (*read)(const std::byte* block, int64_t index, StoredGroup& group);
};

constexpr BlockFormat kBlockFormats[] = {
    {DType::kF32, ExpandF32, nullptr},   {DType::kF16, ExpandF16, nullptr},
    {DType::kBF16, ExpandBF16, nullptr}, {DType::kQ8_0, nullptr, ReadQ8_0},
    {DType::kQ4_0, nullptr, ReadQ4_0},   {DType::kQ4_1, nullptr, ReadQ4_1},
    {DType::kQ5_0, nullptr, ReadQ5_0},   {DType::kQ5_1, nullptr, ReadQ5_1},
    {DType::kQ4_K, nullptr, ReadQ4_K},   {DType::kQ5_K, nullptr, ReadQ5_K},
    {DType::kQ6_K, nullptr, ReadQ6_K},   {DType::kQ4_Z, nullptr, ReadQ4_Z},
    {DType::kQ8_Z, nullptr, ReadQ8_Z},   {DType::kQ8_C, nullptr, ReadQ8_C},
};

const BlockFormat& BlockFormatOf(DType dtype) {
  for (const BlockFormat& format : kBlockFormats) {
    if (format.dtype == dtype) return format;
  }
  LOG(FATAL) << "no block format for " << LayoutOf(dtype).name;
}

// `weights` are those of the group.
void ExpandGroup(const QuantizedFormat& format, const StoredGroup& group,
                 std::span<float> weights) {
  if (format.row_scale) {
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto q = static_cast<int8_t>(group.numbers[i]);
      weights[i] = group.row_scale * static_cast<float>(q);
    }
    return;
  }
  const auto scaled = [](uint16_t half, int8_t factor) {
    return HalfToFloat(half) * static_cast<float>(factor);
  };
  const float scales[2] = {scaled(group.scale, group.scale_factors[0]),
                           scaled(group.scale, group.scale_factors[1])};
  const float minimum = scaled(group.minimum, group.minimum_factor);
  for (int64_t i = 0; i < kGroupSize; ++i) {
    const int q = group.numbers[i] - format.offset;
    float& weight = weights[static_cast<size_t>(i)];
    weight = scales[i / (kGroupSize / 2)] * static_cast<float>(q);
    if (format.has_minimum) weight += minimum;
  }
}

}  // namespace

StoredGroup ReadGroup(DType dtype, const std::byte* row, int64_t group) {
  const QuantizedFormat format = FormatOf(dtype);
  CHECK(format.bits != 0);
  StoredGroup stored;
  BlockFormatOf(dtype).read(
      row + group / format.groups_per_block * LayoutOf(dtype).bytes,
      group % format.groups_per_block, stored);
  return stored;
}

void WriteGroup(DType dtype, const StoredGroup& group, std::byte* block) {
  const QuantizedFormat format = FormatOf(dtype);
  CHECK(format.groups_per_block == 1 &&
        format.has_minimum == format.zero_points &&
        (format.bits == 4 || format.bits == 8));
  if (format.row_scale) {
    std::memcpy(block, &group.row_scale, sizeof(group.row_scale));
    std::memcpy(block + sizeof(group.row_scale), group.numbers, kGroupSize);
    return;
  }
  std::memcpy(block, &group.scale, sizeof(group.scale));
  block += sizeof(group.scale);
  if (format.zero_points) {
    *block++ = static_cast<std::byte>(group.minimum_factor);
  }
  if (format.bits == 8) {
    for (int64_t i = 0; i < kGroupSize; ++i) {
      block[i] = static_cast<std::byte>(group.numbers[i] ^ 0x80);
    }
    return;
  }
  constexpr int64_t kHalf = kGroupSize / 2;
  for (int64_t i = 0; i < kHalf; ++i) {
    block[i] = static_cast<std::byte>(group.numbers[i] |
                                      group.numbers[i + kHalf] << 4);
  }
}

void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst) {
  const auto elements = static_cast<size_t>(LayoutOf(dtype).elements);
  CHECK_EQ(dst.size() % elements, 0u);
  if (!IsQuantized(dtype)) return BlockFormatOf(dtype).expand(src, dst);
  const QuantizedFormat format = FormatOf(dtype);
  for (size_t i = 0; i < dst.size(); i += kGroupSize) {
    ExpandGroup(format,
                ReadGroup(dtype, src, static_cast<int64_t>(i) / kGroupSize),
                dst.subspan(i, kGroupSize));
  }
}

void DequantizeRow(const TensorView& matrix, int64_t row,
                   std::span<float> dst) {
  if (matrix.maker == nullptr) {
    return DequantizeRow(matrix.dtype, matrix.row(row), dst);
  }
  std::vector<std::byte> made(static_cast<size_t>(matrix.row_bytes()));
  matrix.maker->MakeRows(row, 1, made.data());
  DequantizeRow(matrix.dtype, made.data(), dst);
  const std::span<const int32_t> order = matrix.order();
  if (order.empty()) return;
  const std::vector<float> places(dst.begin(), dst.end());
  for (size_t i = 0; i < places.size(); ++i) {
    dst[static_cast<size_t>(order[i])] = places[i];
  }
}

}  // namespace headrace
