#include "engine/architectures/tensor_binder.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/block_formats.h"

namespace headrace {

absl::StatusOr<TensorView> TensorBinder::Bind(const std::string& name,
                                              const Shape& shape) {
  const StoredTensor* tensor = source_.Find(name);
  if (tensor == nullptr) {
    return absl::DataLossError(
        absl::StrCat("tensor ", name, " ", ShapeToString(shape),
                     " is missing from the model's files"));
  }
  if (tensor->view.shape != shape) {
    return absl::DataLossError(
        absl::StrCat("tensor ", name, " (", tensor->location, ") has shape ",
                     ShapeToString(tensor->view.shape),
                     "; the model's dimensions want ", ShapeToString(shape)));
  }
  used_.insert(name);
  return tensor->view;
}

absl::StatusOr<TensorView> TensorBinder::Matrix(const std::string& name,
                                                int64_t rows, int64_t columns) {
  return Bind(name, {rows, columns});
}

absl::StatusOr<std::vector<float>> TensorBinder::Vector(const std::string& name,
                                                        int64_t size) {
  ASSIGN_OR_RETURN(const TensorView view, Bind(name, {size}));
  std::vector<float> values(static_cast<size_t>(size));
  DequantizeRow(view.dtype, view.data, values);
  return values;
}

bool TensorBinder::IsZero(std::string_view name) const {
  const StoredTensor* tensor = source_.Find(name);
  if (tensor == nullptr) return false;
  std::vector<float> values(
      static_cast<size_t>(NumElements(tensor->view.shape)));
  DequantizeRow(tensor->view.dtype, tensor->view.data, values);
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

std::vector<std::string> TensorBinder::Unused() const {
  std::vector<std::string> unused;
  for (const StoredTensor& tensor : source_.tensors()) {
    if (!used_.contains(tensor.name)) unused.push_back(tensor.name);
  }
  return unused;
}

}  // namespace headrace
