// See linear_exact_kernels.h.
#include "engine/ops/kernels/linear_exact_kernels.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_exact_symmetric.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_exact-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

ExactKernels ExactKernelsWithoutMinimumOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return ExactKernelsAs<DType::kQ8_0>();
    case DType::kQ4_0:
      return ExactKernelsAs<DType::kQ4_0>();
    case DType::kQ5_0:
      return ExactKernelsAs<DType::kQ5_0>();
    case DType::kQ6_K:
      return ExactKernelsAs<DType::kQ6_K>();
    case DType::kQ8_C:
      return ExactKernelsAs<DType::kQ8_C>();
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ExactKernelsWithoutMinimumOf);

ExactKernels ExactKernelsWithoutMinimum(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(ExactKernelsWithoutMinimumOf)(dtype);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
