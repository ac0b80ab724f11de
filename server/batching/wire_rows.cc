#include "server/batching/wire_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/tensor/half.h"

namespace headrace {

namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are copied to the wire as they lie in memory");

void NoteLoss(float sent, float value, ActivationChunk& chunk) {
  if (!std::isfinite(value)) return;
  if (std::isfinite(sent)) {
    chunk.max_abs_error = std::max(chunk.max_abs_error, std::abs(sent - value));
  } else {
    ++chunk.overflow_count;
  }
}

template <uint16_t (*narrow)(float), float (*widen)(uint16_t)>
void AppendHalves(std::span<const float> values, ActivationChunk& chunk) {
  const size_t begin = chunk.data.size();
  chunk.data.resize(begin + values.size() * sizeof(uint16_t));
  char* out = chunk.data.data() + begin;
  for (const float value : values) {
    const uint16_t half = narrow(value);
    std::memcpy(out, &half, sizeof(half));
    out += sizeof(half);
    NoteLoss(widen(half), value, chunk);
  }
}

// How far a value is from 0; what is not finite is farthest.
float Magnitude(float value) {
  return std::isfinite(value) ? std::abs(value)
                              : std::numeric_limits<float>::infinity();
}

// Dimensions of the values that an int8 row leaves out, largest first.
std::vector<size_t> FindOutliers(std::span<const float> values) {
  constexpr double kTimes = 6;
  std::vector<size_t> largest(values.size());
  std::iota(largest.begin(), largest.end(), size_t{0});
  const size_t most =
      std::min(values.size(), static_cast<size_t>(kMaxRowOutliers));
  std::partial_sort(largest.begin(),
                    largest.begin() + static_cast<int64_t>(most), largest.end(),
                    [&](size_t a, size_t b) {
                      const float x = Magnitude(values[a]);
                      const float y = Magnitude(values[b]);
                      return x != y ? x > y : a < b;
                    });
  // Sums of squares of the values from the i-th largest on.
  double rest = 0;
  for (size_t i = most; i < largest.size(); ++i) {
    const double x = values[largest[i]];
    if (std::isfinite(x)) rest += x * x;
  }
  size_t count = 0;
  for (size_t i = most; i-- > 0;) {
    const double x = values[largest[i]];
    const auto below = static_cast<double>(values.size() - i - 1);
    if (count == 0 &&
        (!std::isfinite(x) || x * x * below > kTimes * kTimes * rest)) {
      count = i + 1;
    }
    if (std::isfinite(x)) rest += x * x;
  }
  largest.resize(count);
  return largest;
}

void AppendInt8(std::span<const float> values, ActivationChunk& chunk) {
  const auto row = static_cast<int32_t>(chunk.scales.size());
  std::vector<float> kept(values.begin(), values.end());
  for (const size_t i : FindOutliers(values)) {
    chunk.outliers.push_back(
        {.row = row, .dimension = static_cast<int32_t>(i), .value = kept[i]});
    kept[i] = 0;
  }
  float most = 0;
  for (float& value : kept) {
    if (!std::isfinite(value)) {
      ++chunk.overflow_count;
      value = 0;
    }
    most = std::max(most, std::abs(value));
  }
  const float scale = most / 127;
  chunk.scales.push_back(scale);
  for (const float value : kept) {
    const float q = scale == 0 ? 0 : std::nearbyint(value / scale);
    const auto byte = static_cast<int8_t>(std::clamp(q, -127.0f, 127.0f));
    chunk.data.push_back(static_cast<char>(byte));
    NoteLoss(scale * static_cast<float>(byte), value, chunk);
  }
}

}  // namespace

void AppendWireRow(std::span<const float> values, ActivationChunk& chunk) {
  switch (chunk.dtype) {
    case WireDtype::kF32:
      chunk.data.append(reinterpret_cast<const char*>(values.data()),
                        values.size_bytes());
      return;
    case WireDtype::kBF16:
      return AppendHalves<FloatToBFloat16, BFloat16ToFloat>(values, chunk);
    case WireDtype::kF16:
      return AppendHalves<FloatToHalf, HalfToFloat>(values, chunk);
    case WireDtype::kInt8:
      return AppendInt8(values, chunk);
  }
}

}  // namespace headrace
