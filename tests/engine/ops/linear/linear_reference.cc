#include "tests/engine/ops/linear/linear_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/tensor/half.h"

namespace headrace::testing {
namespace {

bool IsFloat(DType dtype) { return LayoutOf(dtype).elements == 1; }

uint16_t LoadU16(const std::byte* p) {
  uint16_t value;
  std::memcpy(&value, p, 2);
  return value;
}

void StoreU16(uint16_t value, std::byte* p) { std::memcpy(p, &value, 2); }

uint16_t RandomScale(std::mt19937& random) {
  switch (random() % 64) {
    case 0:
      return 0;
    case 1:
      return static_cast<uint16_t>(random() % 0x400);  // subnormal
    default:
      return FloatToHalf(
          std::uniform_real_distribution<float>(-0.02f, 0.02f)(random));
  }
}

// The F32 scale that all blocks of a row begin with.
void StoreRowScale(std::mt19937& random, std::byte* block) {
  float scale = std::uniform_real_distribution<float>(-0.02f, 0.02f)(random);
  if (random() % 16 == 0) scale = random() % 2 == 0 ? 0.0f : 1e-40f;
  std::memcpy(block, &scale, 4);
}

// Where the F16 fields of a block are: the scale, then the minimum if any.
std::vector<int64_t> HalvesOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

bool HasZeroPoint(DType dtype) {
  return dtype == DType::kQ4_Z || dtype == DType::kQ8_Z;
}

bool HasMinimum(DType dtype) {
  return HasZeroPoint(dtype) || HalvesOf(dtype).size() == 2;
}

int U8(const std::byte* block, int64_t i) {
  return std::to_integer<int>(block[i]);
}

// Q4_K and Q5_K keep eight scales and eight minima of 6 bits in 12 bytes at 4.
int SixBitScale(const std::byte* block, int64_t j) {
  const std::byte* s = block + 4;
  return j < 4 ? U8(s, j) % 64 : U8(s, j + 4) % 16 + U8(s, j - 4) / 64 * 16;
}

int SixBitMinimum(const std::byte* block, int64_t j) {
  const std::byte* s = block + 4;
  return j < 4 ? U8(s, j + 4) % 64 : U8(s, j + 4) / 16 + U8(s, j) / 64 * 16;
}

int Q6KNumber(const std::byte* block, int64_t e) {
  const int64_t n = e / 128;
  const int64_t g = e % 128 / 32;
  const int64_t l = e % 32;
  const int low = U8(block, 64 * n + 32 * (g % 2) + l);
  const int high = U8(block, 128 + 32 * n + l) >> (2 * g) & 3;
  return (g < 2 ? low % 16 : low / 16) + 16 * high - 32;
}

float MultiplyAdd(float a, float b, float c, bool fused) {
  if (fused) return std::fma(a, b, c);
  const float product = a * b;
  return product + c;
}

}  // namespace

StoredMatrix::StoredMatrix(DType dtype, int64_t out, int64_t in,
                           std::mt19937& random)
    : dtype_(dtype), out_(out), in_(in) {
  const DTypeLayout layout = LayoutOf(dtype);
  const int64_t blocks = out * (in / layout.elements);
  bytes_.resize(static_cast<size_t>(blocks * layout.bytes));
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  for (int64_t i = 0; i < blocks; ++i) {
    std::byte* block = bytes_.data() + i * layout.bytes;
    if (dtype == DType::kF32) {
      const float value = values(random);
      std::memcpy(block, &value, 4);
    } else if (dtype == DType::kF16) {
      StoreU16(FloatToHalf(values(random)), block);
    } else if (dtype == DType::kBF16) {
      StoreU16(FloatToBFloat16(values(random)), block);
    } else {
      for (int64_t j = 0; j < layout.bytes; ++j) {
        block[j] = static_cast<std::byte>(random());
      }
      if (dtype == DType::kQ8_C) {
        const int64_t row_blocks = in / layout.elements;
        if (i % row_blocks == 0) {
          StoreRowScale(random, block);
        } else {
          std::memcpy(block, block - layout.bytes, 4);
        }
        continue;
      }
      for (const int64_t offset : HalvesOf(dtype)) {
        StoreU16(RandomScale(random), block + offset);
      }
    }
  }
}

TensorView StoredMatrix::view() const {
  return {.dtype = dtype_, .shape = {out_, in_}, .data = bytes_.data()};
}

const std::byte* StoredMatrix::Block(int64_t n, int64_t k) const {
  const DTypeLayout layout = LayoutOf(dtype_);
  return bytes_.data() + (n * in_ + k) / layout.elements * layout.bytes;
}

float StoredMatrix::Scale(int64_t n, int64_t k) const {
  const std::byte* block = Block(n, k);
  if (dtype_ == DType::kQ8_C) {
    float scale;
    std::memcpy(&scale, block, 4);
    return scale;
  }
  const float scale = HalfToFloat(LoadU16(block + HalvesOf(dtype_)[0]));
  switch (dtype_) {
    case DType::kQ4_K:
    case DType::kQ5_K:
      return scale * static_cast<float>(SixBitScale(block, k % 256 / 32));
    case DType::kQ6_K:
      return scale * static_cast<float>(
                         static_cast<int8_t>(U8(block, 192 + k % 256 / 16)));
    default:
      return scale;
  }
}

float StoredMatrix::Minimum(int64_t n, int64_t k) const {
  if (!HasMinimum(dtype_)) return 0;
  const std::byte* block = Block(n, k);
  if (HasZeroPoint(dtype_)) {
    return -(Scale(n, k) *
             static_cast<float>(static_cast<int8_t>(U8(block, 2))));
  }
  const float minimum = HalfToFloat(LoadU16(block + 2));
  if (dtype_ != DType::kQ4_K && dtype_ != DType::kQ5_K) return minimum;
  return -(minimum * static_cast<float>(SixBitMinimum(block, k % 256 / 32)));
}

int StoredMatrix::Number(int64_t n, int64_t k) const {
  const std::byte* block = Block(n, k);
  const int64_t e = k % LayoutOf(dtype_).elements;
  // Of 32 nibbles in 16 bytes, and of 64 in 32.
  const auto nibble = [&](int64_t offset, int64_t half) {
    const int byte = U8(block, offset + e / (2 * half) * half + e % half);
    return e / half % 2 == 0 ? byte % 16 : byte / 16;
  };
  const auto fifth = [&](int64_t offset) {
    return 16 * (U8(block, offset + e / 8) >> e % 8 & 1);
  };
  switch (dtype_) {
    case DType::kQ8_0:
      return static_cast<int8_t>(U8(block, 2 + e));
    case DType::kQ4_0:
      return nibble(2, 16) - 8;
    case DType::kQ4_1:
      return nibble(4, 16);
    case DType::kQ5_0:
      return nibble(6, 16) + fifth(2) - 16;
    case DType::kQ5_1:
      return nibble(8, 16) + fifth(4);
    case DType::kQ4_K:
      return nibble(16, 32);
    case DType::kQ5_K:
      return nibble(48, 32) + 16 * (U8(block, 16 + e % 32) >> e / 32 & 1);
    case DType::kQ6_K:
      return Q6KNumber(block, e);
    case DType::kQ4_Z:
      return nibble(3, 16);
    case DType::kQ8_Z:
      return static_cast<int8_t>(U8(block, 3 + e));
    case DType::kQ8_C:
      return static_cast<int8_t>(U8(block, 4 + e));
    default:
      return 0;
  }
}

float StoredMatrix::At(int64_t n, int64_t k) const {
  const std::byte* block = Block(n, k);
  if (dtype_ == DType::kF32) {
    float value;
    std::memcpy(&value, block, 4);
    return value;
  }
  if (dtype_ == DType::kF16) return HalfToFloat(LoadU16(block));
  if (dtype_ == DType::kBF16) return BFloat16ToFloat(LoadU16(block));
  const float product = Scale(n, k) * static_cast<float>(Number(n, k));
  return HasMinimum(dtype_) ? product + Minimum(n, k) : product;
}

ReferenceGroup QuantizeReference(std::span<const float> x) {
  ReferenceGroup group;
  group.values.assign(x.size(), 0);
  float absmax = 0;
  for (const float value : x) {
    if (std::isnan(value)) absmax = value;
    if (!std::isnan(absmax)) absmax = std::max(absmax, std::fabs(value));
  }
  if (absmax < 0x1p-100f) return group;
  group.scale = absmax / 127.0f;
  if (!std::isfinite(absmax)) return group;
  const float inverse = 127.0f / absmax;
  for (size_t i = 0; i < x.size(); ++i) {
    const float scaled = x[i] * inverse;
    group.values[i] = static_cast<int>(std::nearbyint(scaled));
    group.sum += group.values[i];
  }
  return group;
}

std::vector<float> RemainderReference(std::span<const float> x, size_t width) {
  std::vector<float> remainder;
  for (size_t k = 0; k < x.size(); k += width) {
    const ReferenceGroup group = QuantizeReference(x.subspan(k, width));
    for (size_t i = 0; i < width; ++i) {
      remainder.push_back(std::fma(
          -group.scale, static_cast<float>(group.values[i]), x[k + i]));
    }
  }
  return remainder;
}

namespace {

float ReferenceExact(std::span<const float> x, const StoredMatrix& weights,
                     int64_t n, bool fused) {
  const auto in = static_cast<int64_t>(x.size());
  float total = 0;
  for (int64_t begin = 0; begin < in; begin += 512) {
    float sum = 0;
    for (int64_t k = begin; k < std::min(in, begin + 512); ++k) {
      sum =
          MultiplyAdd(x[static_cast<size_t>(k)], weights.At(n, k), sum, fused);
    }
    total = begin == 0 ? sum : total + sum;
  }
  return total;
}

float ReferenceFast(std::span<const ReferenceGroup> groups,
                    const StoredMatrix& weights, int64_t n, bool fused) {
  const DType dtype = weights.view().dtype;
  const int64_t width = dtype == DType::kQ6_K ? 16 : 32;  // of a scale
  float acc = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto begin = static_cast<int64_t>(32 * g);
    for (int64_t first = 0; first < 32; first += width) {
      int dot = 0;
      for (int64_t i = first; i < first + width; ++i) {
        dot += groups[g].values[static_cast<size_t>(i)] *
               weights.Number(n, begin + i);
      }
      const float scale = weights.Scale(n, begin + first) * groups[g].scale;
      acc = MultiplyAdd(static_cast<float>(dot), scale, acc, fused);
    }
    if (HasMinimum(dtype)) {
      const float sum = groups[g].scale * static_cast<float>(groups[g].sum);
      acc = MultiplyAdd(weights.Minimum(n, begin), sum, acc, fused);
    }
  }
  return acc;
}

float ReferenceInt8(const ReferenceGroup& row, const StoredMatrix& weights,
                    int64_t n) {
  int64_t dot = 0;
  for (size_t k = 0; k < row.values.size(); ++k) {
    dot += row.values[k] * weights.Number(n, static_cast<int64_t>(k));
  }
  const float scale = weights.Scale(n, 0) * row.scale;
  return static_cast<float>(dot) * scale;
}

}  // namespace

std::vector<float> ReferenceRow(std::span<const float> x,
                                const StoredMatrix& weights, Numerics numerics,
                                bool fused) {
  const TensorView view = weights.view();
  const bool fast = numerics == Numerics::kFast && !IsFloat(view.dtype);
  const bool of_rows = view.dtype == DType::kQ8_C;
  std::vector<ReferenceGroup> groups;
  if (fast) {
    const size_t width = of_rows ? x.size() : 32;
    for (size_t k = 0; k < x.size(); k += width) {
      groups.push_back(QuantizeReference(x.subspan(k, width)));
    }
  }
  std::vector<float> dst;
  for (int64_t n = 0; n < view.dim(0); ++n) {
    dst.push_back(!fast     ? ReferenceExact(x, weights, n, fused)
                  : of_rows ? ReferenceInt8(groups[0], weights, n)
                            : ReferenceFast(groups, weights, n, fused));
  }
  return dst;
}

}  // namespace headrace::testing
