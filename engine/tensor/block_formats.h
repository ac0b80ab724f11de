// What the stored blocks mean in numbers. One format is one line in the table
// of block_formats.cc.
#ifndef HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_
#define HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/tensor/dtype.h"

namespace headrace {

// Expands `dst.size()` values (a whole number of blocks) from `src`. Products
// scale * q are exact in float32; Q4_1 adds its minimum with one rounding.
void DequantizeRow(DType dtype, const std::byte* src, std::span<float> dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_BLOCK_FORMATS_H_
