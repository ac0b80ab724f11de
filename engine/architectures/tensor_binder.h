// Finds the tensors that an architecture needs, checks their shapes against
// its dimensions, and knows afterwards which ones nobody asked for.
#ifndef HEADRACE_ENGINE_ARCHITECTURES_TENSOR_BINDER_H_
#define HEADRACE_ENGINE_ARCHITECTURES_TENSOR_BINDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/tensor/tensor_view.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// Errors are DATA_LOSS, naming the tensor, the shape found and the one wanted.
class TensorBinder {
 public:
  // `source` outlives this.
  explicit TensorBinder(const WeightSource& source) : source_(source) {}

  bool Has(std::string_view name) const {
    return source_.Find(name) != nullptr;
  }
  absl::StatusOr<TensorView> Matrix(const std::string& name, int64_t rows,
                                    int64_t columns);
  // As floats, whatever it is stored in.
  absl::StatusOr<std::vector<float>> Vector(const std::string& name,
                                            int64_t size);
  // Known, but not needed.
  void Ignore(const std::string& name) { used_.insert(name); }
  // Whether a tensor is stored and every element of it is zero.
  bool IsZero(std::string_view name) const;
  // Tensors that were neither bound nor ignored, in order of name.
  std::vector<std::string> Unused() const;

 private:
  absl::StatusOr<TensorView> Bind(const std::string& name, const Shape& shape);

  const WeightSource& source_;
  absl::flat_hash_set<std::string> used_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ARCHITECTURES_TENSOR_BINDER_H_
