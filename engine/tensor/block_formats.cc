#include "engine/tensor/block_formats.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "absl/log/check.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/half.h"

namespace headrace {
namespace {

constexpr size_t kBlock = 32;

uint16_t LoadU16(const std::byte* src) {
  uint16_t value;
  std::memcpy(&value, src, sizeof(value));
  return value;
}

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

// f16 d @0, i8 q[32] @2:  d * q
void ExpandQ8_0(const std::byte* src, std::span<float> dst) {
  for (size_t i = 0; i < dst.size(); i += kBlock, src += 34) {
    const float d = HalfToFloat(LoadU16(src));
    for (size_t e = 0; e < kBlock; ++e) {
      dst[i + e] = d * static_cast<float>(static_cast<int8_t>(src[2 + e]));
    }
  }
}

// f16 d @0, nibbles q[16] @2:  d * (q - 8). The low nibbles are elements
// 0..15, the high ones 16..31.
void ExpandQ4_0(const std::byte* src, std::span<float> dst) {
  for (size_t i = 0; i < dst.size(); i += kBlock, src += 18) {
    const float d = HalfToFloat(LoadU16(src));
    for (size_t e = 0; e < kBlock / 2; ++e) {
      const int pair = static_cast<uint8_t>(src[2 + e]);
      dst[i + e] = d * static_cast<float>((pair & 15) - 8);
      dst[i + e + kBlock / 2] = d * static_cast<float>((pair >> 4) - 8);
    }
  }
}

// f16 d @0, f16 m @2, nibbles q[16] @4:  d * q + m
void ExpandQ4_1(const std::byte* src, std::span<float> dst) {
  for (size_t i = 0; i < dst.size(); i += kBlock, src += 20) {
    const float d = HalfToFloat(LoadU16(src));
    const float m = HalfToFloat(LoadU16(src + 2));
    for (size_t e = 0; e < kBlock / 2; ++e) {
      const int pair = static_cast<uint8_t>(src[4 + e]);
      dst[i + e] = d * static_cast<float>(pair & 15) + m;
      dst[i + e + kBlock / 2] = d * static_cast<float>(pair >> 4) + m;
    }
  }
}

struct BlockFormat {
  DType dtype;
  void (*expand)(const std::byte* src, std::span<float> dst);
};

constexpr BlockFormat kBlockFormats[] = {
    {DType::kF32, ExpandF32},   {DType::kF16, ExpandF16},
    {DType::kBF16, ExpandBF16}, {DType::kQ8_0, ExpandQ8_0},
    {DType::kQ4_0, ExpandQ4_0}, {DType::kQ4_1, ExpandQ4_1},
};

}  // namespace

void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst) {
  const auto elements = static_cast<size_t>(LayoutOf(dtype).elements);
  CHECK_EQ(dst.size() % elements, 0u);
  for (const BlockFormat& format : kBlockFormats) {
    if (format.dtype == dtype) return format.expand(src, dst);
  }
  CHECK(false) << "no block format for " << LayoutOf(dtype).name;
}

}  // namespace headrace
