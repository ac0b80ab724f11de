#include "tests/testing/block_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/half.h"

namespace headrace {
namespace {

template <typename T>
void Append(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Appends `scale` as binary16 and returns what was stored.
float AppendHalf(std::string& out, float scale) {
  const uint16_t half = FloatToHalf(scale);
  Append(out, half);
  return HalfToFloat(half);
}

// The integer nearest to value / scale, in [low, high].
int NearestCode(float value, float scale, int low, int high) {
  if (scale == 0 || !std::isfinite(scale) || !std::isfinite(value)) {
    return std::clamp(0, low, high);
  }
  const float code = std::nearbyint(value / scale);
  return static_cast<int>(
      std::clamp(code, static_cast<float>(low), static_cast<float>(high)));
}

// NaN when any value is NaN, infinite when any is infinite.
float PeakBySize(std::span<const float> block) {
  float peak = 0;
  for (const float v : block) {
    if (std::isnan(v)) return v;
    if (std::fabs(v) > std::fabs(peak)) peak = v;
  }
  return peak;
}

// The low four bits of two halves side by side.
void AppendNibbles(std::string& out, std::span<const int> codes) {
  const size_t half = codes.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    Append(out, static_cast<uint8_t>((codes[i] & 15) |
                                     ((codes[i + half] & 15) << 4)));
  }
}

// Then the fifth bits come first.
void AppendFiveBits(std::string& out, std::span<const int> codes) {
  uint32_t fifth = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    fifth |= static_cast<uint32_t>(codes[i] >> 4) << i;
  }
  Append(out, fifth);
  AppendNibbles(out, codes);
}

void AppendQ8_0(std::string& out, std::span<const float> block) {
  const float scale = AppendHalf(out, std::fabs(PeakBySize(block)) / 127);
  for (const float v : block) {
    Append(out, static_cast<int8_t>(NearestCode(v, scale, -127, 127)));
  }
}

// Q4_0 and Q5_0: codes around zero, of the given number of bits.
void AppendSymmetric(std::string& out, std::span<const float> block, int bits) {
  const int zero = 1 << (bits - 1);
  const float scale =
      AppendHalf(out, PeakBySize(block) / static_cast<float>(-zero));
  int codes[32];
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = NearestCode(block[i], scale, -zero, zero - 1) + zero;
  }
  bits == 4 ? AppendNibbles(out, codes) : AppendFiveBits(out, codes);
}

// Q4_1 and Q5_1: codes from the minimum up.
void AppendFromMinimum(std::string& out, std::span<const float> block,
                       int bits) {
  const int most = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const bool finite = std::isfinite(PeakBySize(block));
  const float range = finite ? *high - *low : PeakBySize(block);
  const float scale = AppendHalf(out, range / static_cast<float>(most));
  const float minimum = AppendHalf(out, finite ? *low : 0.0f);
  int codes[32];
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = NearestCode(block[i] - minimum, scale, 0, most);
  }
  bits == 4 ? AppendNibbles(out, codes) : AppendFiveBits(out, codes);
}

// Eight scales and eight minima of 6 bits in 12 bytes.
void AppendSixBitFactors(std::string& out, const int (&scales)[8],
                         const int (&minima)[8]) {
  for (const auto& factors : {std::span(scales), std::span(minima)}) {
    for (size_t j = 0; j < 4; ++j) {
      Append(out, static_cast<uint8_t>(factors[j] | factors[j + 4] >> 4 << 6));
    }
  }
  for (size_t j = 4; j < 8; ++j) {
    Append(out, static_cast<uint8_t>((scales[j] & 15) | (minima[j] & 15) << 4));
  }
}

// Q4_K and Q5_K: groups of 32 codes from a minimum of zero or less up, with
// factors of 6 bits for the block's scale and minimum.
void AppendSuperBlock(std::string& out, std::span<const float> block,
                      int bits) {
  const int most = (1 << bits) - 1;
  const bool finite = std::isfinite(PeakBySize(block));
  float steps[8];
  float depths[8];  // of the minima
  for (size_t j = 0; j < 8; ++j) {
    const auto group = block.subspan(32 * j, 32);
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    depths[j] = finite ? std::max(0.0f, -*low) : 0.0f;
    steps[j] =
        finite ? std::max(0.0f, *high + depths[j]) / static_cast<float>(most)
               : PeakBySize(block);
  }
  const float scale = AppendHalf(out, *std::max_element(steps, steps + 8) / 63);
  const float depth =
      AppendHalf(out, *std::max_element(depths, depths + 8) / 63);
  int scales[8];
  int minima[8];
  int codes[256];
  for (size_t j = 0; j < 8; ++j) {
    scales[j] = NearestCode(steps[j], scale, 0, 63);
    minima[j] = NearestCode(depths[j], depth, 0, 63);
    for (size_t i = 32 * j; i < 32 * (j + 1); ++i) {
      codes[i] = NearestCode(block[i] + depth * static_cast<float>(minima[j]),
                             scale * static_cast<float>(scales[j]), 0, most);
    }
  }
  AppendSixBitFactors(out, scales, minima);
  for (size_t i = 0; bits == 5 && i < 32; ++i) {
    int fifth = 0;
    for (size_t j = 0; j < 8; ++j) fifth |= codes[32 * j + i] >> 4 << j;
    Append(out, static_cast<uint8_t>(fifth));
  }
  for (size_t i = 0; i < 256; i += 64) {
    AppendNibbles(out, std::span(codes).subspan(i, 64));
  }
}

// Q6_K: groups of 16 codes around zero, with factors of 8 bits for the block's
// scale.
void AppendQ6_K(std::string& out, std::span<const float> block) {
  float steps[16];
  for (size_t j = 0; j < 16; ++j) {
    steps[j] = PeakBySize(block.subspan(16 * j, 16)) / -32;
  }
  std::string scale_bytes;
  const float scale = AppendHalf(scale_bytes, PeakBySize(steps) / -128);
  std::string factors;
  int codes[256];
  for (size_t j = 0; j < 16; ++j) {
    const int factor = NearestCode(steps[j], scale, -128, 127);
    Append(factors, static_cast<int8_t>(factor));
    for (size_t i = 16 * j; i < 16 * (j + 1); ++i) {
      codes[i] =
          NearestCode(block[i], scale * static_cast<float>(factor), -32, 31) +
          32;
    }
  }
  for (size_t i = 0; i < 256; i += 128) {
    AppendNibbles(out, std::span(codes).subspan(i, 128));
  }
  for (size_t i = 0; i < 64; ++i) {
    const int* first = codes + i / 32 * 128 + i % 32;
    Append(out,
           static_cast<uint8_t>(first[0] >> 4 | first[32] >> 4 << 2 |
                                first[64] >> 4 << 4 | first[96] >> 4 << 6));
  }
  out += factors;
  out += scale_bytes;
}

// Q4_Z and Q8_Z: codes from a zero point.
void AppendFromZeroPoint(std::string& out, std::span<const float> block,
                         int bits) {
  const int most = (1 << bits) - 1;
  const bool finite = std::isfinite(PeakBySize(block));
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float range =
      finite ? std::max(*high, 0.0f) - std::min(*low, 0.0f) : PeakBySize(block);
  const float scale = AppendHalf(out, range / static_cast<float>(most));
  const int zero = NearestCode(finite ? -*low : 0.0f, scale, 0, most);
  const int offset = bits == 8 ? 128 : 0;
  Append(out, static_cast<int8_t>(zero - offset));
  int codes[32];
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = NearestCode(block[i], scale, -zero, most - zero) + zero;
  }
  if (bits == 4) return AppendNibbles(out, codes);
  for (const int code : codes) Append(out, static_cast<int8_t>(code - offset));
}

void AppendBlock(DType dtype, std::string& out, std::span<const float> block) {
  switch (dtype) {
    case DType::kF32:
      return Append(out, block[0]);
    case DType::kF16:
      return Append(out, FloatToHalf(block[0]));
    case DType::kBF16:
      return Append(out, FloatToBFloat16(block[0]));
    case DType::kQ8_0:
      return AppendQ8_0(out, block);
    case DType::kQ4_0:
      return AppendSymmetric(out, block, 4);
    case DType::kQ4_1:
      return AppendFromMinimum(out, block, 4);
    case DType::kQ5_0:
      return AppendSymmetric(out, block, 5);
    case DType::kQ5_1:
      return AppendFromMinimum(out, block, 5);
    case DType::kQ4_K:
      return AppendSuperBlock(out, block, 4);
    case DType::kQ5_K:
      return AppendSuperBlock(out, block, 5);
    case DType::kQ6_K:
      return AppendQ6_K(out, block);
    case DType::kQ4_Z:
      return AppendFromZeroPoint(out, block, 4);
    case DType::kQ8_Z:
      return AppendFromZeroPoint(out, block, 8);
    case DType::kQ8_C:
      LOG(FATAL) << "its scale is that of a row";
  }
}

}  // namespace

std::string EncodeBlocks(DType dtype, std::span<const float> values) {
  const DTypeLayout layout = LayoutOf(dtype);
  const size_t elements = static_cast<size_t>(layout.elements);
  CHECK_EQ(values.size() % elements, 0u) << layout.name;
  std::string out;
  out.reserve(values.size() / elements * layout.bytes);
  for (size_t i = 0; i < values.size(); i += elements) {
    AppendBlock(dtype, out, values.subspan(i, elements));
  }
  return out;
}

}  // namespace headrace
