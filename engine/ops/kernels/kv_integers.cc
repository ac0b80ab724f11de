// See kv_integers.h.
#include "engine/ops/kernels/kv_integers.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/kv_integers.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/kv_integers-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

void QuantizeToInt16Of(const float* src, int64_t size, int64_t num_rows,
                       int64_t limit, int16_t* dst, float* scales) {
  RoundRowsToInt16(src, size, num_rows, static_cast<float>(limit), dst, scales);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeToInt16Of);

void QuantizeToInt16(const float* src, int64_t size, int64_t num_rows,
                     int64_t limit, int16_t* dst, float* scales) {
  HWY_DYNAMIC_DISPATCH(QuantizeToInt16Of)
  (src, size, num_rows, limit, dst, scales);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
