// See linear_fast_kernels.h.
#include "engine/ops/kernels/linear_fast_kernels.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/dot_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_fast_symmetric.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_fast-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

FastKernel FastKernelWithoutMinimumOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return BestKernel<FormatOf(DType::kQ8_0)>();
    case DType::kQ4_0:
      return BestKernel<FormatOf(DType::kQ4_0)>();
    case DType::kQ5_0:
      return BestKernel<FormatOf(DType::kQ5_0)>();
    case DType::kQ6_K:
      return BestKernel<FormatOf(DType::kQ6_K)>();
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(FastKernelWithoutMinimumOf);

FastKernel FastKernelWithoutMinimum(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(FastKernelWithoutMinimumOf)(dtype);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
