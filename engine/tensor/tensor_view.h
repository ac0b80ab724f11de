// A typed, shaped, non-owning window on memory that someone else keeps alive:
// a mapped file or an arena. Row-major, slowest dimension first.
#ifndef HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_
#define HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/tensor/dtype.h"

namespace headrace {

using Shape = std::vector<int64_t>;

// "[576, 1536]", for messages.
std::string ShapeToString(const Shape& shape);

// Number of elements; shapes come from validated sources, so it cannot wrap.
int64_t NumElements(const Shape& shape);

// Rows of a matrix that are nowhere in memory as their type lays them out, and
// are made when they are read: a file keeps them in an order of its own.
// Thread-safe.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  // Writes rows [first, first + count), each of TensorView::row_bytes(). Many
  // neighbours at once are made faster than one by one.
  virtual void MakeRows(int64_t first, int64_t count, std::byte* dst) const = 0;
  // Which input each place of a made row belongs to: a permutation, or empty
  // where they are in order. Lives as long as this.
  virtual std::span<const int32_t> order() const { return {}; }
};

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  const RowMaker* maker = nullptr;  // of a matrix without `data`

  int64_t dim(size_t i) const { return shape[i]; }
  // Bytes of one row: the last dimension.
  int64_t row_bytes() const {
    const DTypeLayout layout = LayoutOf(dtype);
    return shape.back() / layout.elements * layout.bytes;
  }
  std::span<const int32_t> order() const {
    return maker == nullptr ? std::span<const int32_t>() : maker->order();
  }
  // Of a tensor with `data`.
  const std::byte* row(int64_t i) const { return data + i * row_bytes(); }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_TENSOR_VIEW_H_
