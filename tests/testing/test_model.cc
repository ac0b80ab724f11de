#include "tests/testing/test_model.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/log/check.h"

namespace headrace {
namespace {

const FloatTensor* Find(const TestModel& model, std::string_view name) {
  for (const FloatTensor& tensor : model.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

}  // namespace

const FloatTensor& TensorOf(const TestModel& model, std::string_view name) {
  const FloatTensor* tensor = Find(model, name);
  CHECK(tensor != nullptr) << "no tensor " << name;
  return *tensor;
}

FloatTensor& TensorOf(TestModel& model, std::string_view name) {
  return const_cast<FloatTensor&>(TensorOf(std::as_const(model), name));
}

bool HasTensor(const TestModel& model, std::string_view name) {
  return Find(model, name) != nullptr;
}

void SetElement(TestModel& model, std::string_view name, size_t index,
                float value) {
  FloatTensor& tensor = TensorOf(model, name);
  CHECK_LT(index, tensor.values.size()) << name;
  tensor.values[index] = value;
}

}  // namespace headrace
