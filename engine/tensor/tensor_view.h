// A typed, shaped, non-owning window on memory that someone else keeps alive:
// a mapped file or an arena. Row-major, slowest dimension first.
#ifndef HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_
#define HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor/dtype.h"

namespace headrace {

using Shape = std::vector<int64_t>;

// "[576, 1536]", for messages.
std::string ShapeToString(const Shape& shape);

// Number of elements; shapes come from validated sources, so it cannot wrap.
int64_t NumElements(const Shape& shape);

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  int64_t dim(size_t i) const { return shape[i]; }
  // Bytes of one row: the last dimension.
  int64_t row_bytes() const {
    const DTypeLayout layout = LayoutOf(dtype);
    return shape.back() / layout.elements * layout.bytes;
  }
  const std::byte* row(int64_t i) const { return data + i * row_bytes(); }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_
