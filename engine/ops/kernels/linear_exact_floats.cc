// See linear_exact_kernels.h.
#include "engine/ops/kernels/linear_exact_kernels.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_exact_floats.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_exact-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

ExactKernels ExactKernelsFloatsOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ExactKernelsAs<DType::kF32>();
    case DType::kF16:
      return ExactKernelsAs<DType::kF16>();
    case DType::kBF16:
      return ExactKernelsAs<DType::kBF16>();
    default:
      return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ExactKernelsFloatsOf);

ExactKernels ExactKernelsOfFloats(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(ExactKernelsFloatsOf)(dtype);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
