#include "tests/testing/block_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "absl/log/check.h"
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

void AppendNibbles(std::string& out, std::span<const int> codes) {
  const size_t half = codes.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    Append(out, static_cast<uint8_t>(codes[i] | (codes[i + half] << 4)));
  }
}

void AppendQ8_0(std::string& out, std::span<const float> block) {
  const float scale = AppendHalf(out, std::fabs(PeakBySize(block)) / 127);
  for (const float v : block) {
    Append(out, static_cast<int8_t>(NearestCode(v, scale, -127, 127)));
  }
}

void AppendQ4_0(std::string& out, std::span<const float> block) {
  const float scale = AppendHalf(out, PeakBySize(block) / -8);
  int codes[32];
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = NearestCode(block[i], scale, -8, 7) + 8;
  }
  AppendNibbles(out, {codes, block.size()});
}

void AppendQ4_1(std::string& out, std::span<const float> block) {
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const bool finite = std::isfinite(PeakBySize(block));
  const float range = finite ? *high - *low : PeakBySize(block);
  const float scale = AppendHalf(out, range / 15);
  const float minimum = AppendHalf(out, finite ? *low : 0.0f);
  int codes[32];
  for (size_t i = 0; i < block.size(); ++i) {
    codes[i] = NearestCode(block[i] - minimum, scale, 0, 15);
  }
  AppendNibbles(out, {codes, block.size()});
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
      return AppendQ4_0(out, block);
    case DType::kQ4_1:
      return AppendQ4_1(out, block);
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
