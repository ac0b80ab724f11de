// What the stored blocks mean in numbers: the one place that knows where the
// bytes of each type are in a file. One format is one line in the table of
// block_formats.cc.
#ifndef HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_
#define HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/tensor/dtype.h"
#include "engine/tensor/quantized_format.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// 32 weights of a quantised type, taken apart. With one scale per group, both
// factors of the scale are the same.
struct StoredGroup {
  uint16_t scale = 0;    // F16
  uint16_t minimum = 0;  // F16, to be added
  float row_scale = 0;   // instead of the others, if the format has one
  int8_t scale_factors[2] = {1, 1};
  int8_t minimum_factor = 1;
  uint8_t numbers[kGroupSize] = {};  // q + offset
};

// Group `group` of a row of a quantised type.
StoredGroup ReadGroup(DType dtype, const std::byte* row, int64_t group);

// The inverse, for types of 4 or 8 bits whose blocks are one group without a
// stored minimum. With zero points, minimum_factor is the group's.
void WriteGroup(DType dtype, const StoredGroup& group, std::byte* block);

// Expands `dst.size()` values (a whole number of blocks) from `src`, as
// quantized_format.h says.
void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst);

// The same of row `row` of a matrix, stored or made.
void DequantizeRow(const TensorView& matrix, int64_t row, std::span<float> dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_
