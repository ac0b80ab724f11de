// The scalar twin of Linear(): what engine/ops/README.md says, one output at a
// time, from the bytes as a file holds them. Slow and obvious.
#ifndef HEADRACE_TESTS_ENGINE_OPS_LINEAR_LINEAR_REFERENCE_H_
#define HEADRACE_TESTS_ENGINE_OPS_LINEAR_LINEAR_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/numerics.h"
#include "engine/tensor/tensor_view.h"

namespace headrace::testing {

// A matrix [out, in] that owns its bytes.
class StoredMatrix {
 public:
  // Random numbers; scales of quantised types have either sign, are zero or
  // subnormal at times.
  StoredMatrix(DType dtype, int64_t out, int64_t in, std::mt19937& random);

  TensorView view() const;
  // The value of a weight; `fused` as in ReferenceRow().
  float At(int64_t n, int64_t k) const;

  // Of a quantised type: scale, minimum and number of one weight.
  float Scale(int64_t n, int64_t k) const;
  float Minimum(int64_t n, int64_t k) const;
  int Number(int64_t n, int64_t k) const;

 private:
  const std::byte* Block(int64_t n, int64_t k) const;

  DType dtype_;
  int64_t out_;
  int64_t in_;
  std::vector<std::byte> bytes_;
};

// 32 quantised values, or those of a whole row.
struct ReferenceGroup {
  std::vector<int> values;
  float scale = 0;
  int sum = 0;
};
ReferenceGroup QuantizeReference(std::span<const float> x);
// What the quantised groups of a row, of `width` values each, leave of it.
std::vector<float> RemainderReference(std::span<const float> x, size_t width);

// The products of one row with all outputs. `fused`: whether the machine has a
// fused multiply-add.
std::vector<float> ReferenceRow(std::span<const float> x,
                                const StoredMatrix& weights, Numerics numerics,
                                bool fused);

}  // namespace headrace::testing

#endif  // HEADRACE_TESTS_ENGINE_OPS_LINEAR_LINEAR_REFERENCE_H_
