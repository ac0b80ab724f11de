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
      StoreU16(RandomScale(random), block);
      if (dtype == DType::kQ4_1) StoreU16(RandomScale(random), block + 2);
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
  return HalfToFloat(LoadU16(Block(n, k)));
}

float StoredMatrix::Minimum(int64_t n, int64_t k) const {
  return dtype_ == DType::kQ4_1 ? HalfToFloat(LoadU16(Block(n, k) + 2)) : 0;
}

int StoredMatrix::Number(int64_t n, int64_t k) const {
  const std::byte* numbers = Block(n, k) + (dtype_ == DType::kQ4_1 ? 4 : 2);
  const int64_t i = k % 32;
  if (dtype_ == DType::kQ8_0) return static_cast<int8_t>(numbers[i]);
  const int byte = std::to_integer<int>(numbers[i % 16]);
  const int nibble = i < 16 ? byte & 15 : byte >> 4;
  return dtype_ == DType::kQ4_0 ? nibble - 8 : nibble;
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
  return dtype_ == DType::kQ4_1 ? product + Minimum(n, k) : product;
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
  float acc = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto begin = static_cast<int64_t>(32 * g);
    int dot = 0;
    for (int64_t i = 0; i < 32; ++i) {
      dot += groups[g].values[static_cast<size_t>(i)] *
             weights.Number(n, begin + i);
    }
    const float scale = weights.Scale(n, begin) * groups[g].scale;
    acc = MultiplyAdd(static_cast<float>(dot), scale, acc, fused);
    if (weights.view().dtype == DType::kQ4_1) {
      const float sum = groups[g].scale * static_cast<float>(groups[g].sum);
      acc = MultiplyAdd(weights.Minimum(n, begin), sum, acc, fused);
    }
  }
  return acc;
}

}  // namespace

std::vector<float> ReferenceRow(std::span<const float> x,
                                const StoredMatrix& weights, Numerics numerics,
                                bool fused) {
  const TensorView view = weights.view();
  const bool fast = numerics == Numerics::kFast && !IsFloat(view.dtype);
  std::vector<ReferenceGroup> groups;
  if (fast) {
    for (size_t k = 0; k < x.size(); k += 32) {
      groups.push_back(QuantizeReference(x.subspan(k, 32)));
    }
  }
  std::vector<float> dst(static_cast<size_t>(view.dim(0)));
  for (int64_t n = 0; n < view.dim(0); ++n) {
    dst[static_cast<size_t>(n)] = fast
                                      ? ReferenceFast(groups, weights, n, fused)
                                      : ReferenceExact(x, weights, n, fused);
  }
  return dst;
}

}  // namespace headrace::testing
