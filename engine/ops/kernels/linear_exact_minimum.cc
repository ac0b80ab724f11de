// See linear_exact_kernels.h.
#include "engine/ops/kernels/linear_exact_kernels.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_exact_minimum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_exact-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

ExactKernels ExactKernelsWithMinimumOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
      return ExactKernelsAs<DType::kQ4_1>();
    case DType::kQ5_1:
      return ExactKernelsAs<DType::kQ5_1>();
    case DType::kQ4_K:
      return ExactKernelsAs<DType::kQ4_K>();
    case DType::kQ5_K:
      return ExactKernelsAs<DType::kQ5_K>();
    case DType::kQ4_Z:
      return ExactKernelsAs<DType::kQ4_Z>();
    case DType::kQ8_Z:
      return ExactKernelsAs<DType::kQ8_Z>();
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ExactKernelsWithMinimumOf);

ExactKernels ExactKernelsWithMinimum(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(ExactKernelsWithMinimumOf)(dtype);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
