// See linear_fast_kernels.h.
#include "engine/ops/kernels/linear_fast_kernels.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/dot_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_fast_minimum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_fast-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

FastKernel FastKernelWithMinimumOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
      return BestKernel<FormatOf(DType::kQ4_1)>();
    case DType::kQ5_1:
      return BestKernel<FormatOf(DType::kQ5_1)>();
    case DType::kQ4_K:
      return BestKernel<FormatOf(DType::kQ4_K)>();
    case DType::kQ5_K:
      return BestKernel<FormatOf(DType::kQ5_K)>();
    case DType::kQ4_Z:
      return BestKernel<FormatOf(DType::kQ4_Z)>();
    case DType::kQ8_Z:
      return BestKernel<FormatOf(DType::kQ8_Z)>();
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(FastKernelWithMinimumOf);

FastKernel FastKernelWithMinimum(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(FastKernelWithMinimumOf)(dtype);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
