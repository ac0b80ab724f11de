// How the weights of a quantised type come about from small integers: one type
// is one line. Where its bytes are in a file is in block_formats.cc, where they
// are once packed in engine/ops/README.md; both follow from these lines.
#ifndef HEADRACE_ENGINE_TENSOR_QUANTIZED_FORMAT_H_
#define HEADRACE_ENGINE_TENSOR_QUANTIZED_FORMAT_H_

#include <cstdint>

#include "engine/tensor/dtype.h"

namespace headrace {

inline constexpr int64_t kGroupSize = 32;  // weights along a row

// weight = scale * q + minimum, where q is an integer of its own and the others
// belong to its group. Every scale * q is exact in float32, and so are scale
// and minimum: the sum is the only rounding. With a scale of the row, the
// product is rounded, and there is no minimum.
struct QuantizedFormat {
  int bits = 0;    // of a stored number; 0: the type is not quantised
  int offset = 0;  // the stored number is q + offset
  bool has_minimum = false;
  // Groups that share an F16 scale (and F16 minimum). Where several do, each
  // has factors of 8 bits of its own, by which these are multiplied.
  int groups_per_block = 1;
  int scales_per_group = 1;  // 2: one for each 16 weights
  // The minimum is -scale * z, with an integer z of 8 bits for each group.
  bool zero_points = false;
  // One F32 scale for all groups of a row. A stored number is q as a signed
  // byte.
  bool row_scale = false;

  bool operator==(const QuantizedFormat&) const = default;
};

constexpr QuantizedFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {};
    case DType::kQ8_0:
      return {.bits = 8, .offset = 128};
    case DType::kQ4_0:
      return {.bits = 4, .offset = 8};
    case DType::kQ4_1:
      return {.bits = 4, .has_minimum = true};
    case DType::kQ5_0:
      return {.bits = 5, .offset = 16};
    case DType::kQ5_1:
      return {.bits = 5, .has_minimum = true};
    case DType::kQ4_K:
      return {.bits = 4, .has_minimum = true, .groups_per_block = 8};
    case DType::kQ5_K:
      return {.bits = 5, .has_minimum = true, .groups_per_block = 8};
    case DType::kQ6_K:
      return {.bits = 6,
              .offset = 32,
              .groups_per_block = 8,
              .scales_per_group = 2};
    case DType::kQ4_Z:
      return {.bits = 4, .has_minimum = true, .zero_points = true};
    case DType::kQ8_Z:
      return {
          .bits = 8, .offset = 128, .has_minimum = true, .zero_points = true};
    case DType::kQ8_C:
      return {.bits = 8, .row_scale = true};
  }
  return {};
}

constexpr bool IsQuantized(DType dtype) { return FormatOf(dtype).bits != 0; }

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_QUANTIZED_FORMAT_H_
