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

float QuantizeToInt16Of(const float* src, int64_t size, int64_t limit,
                        int16_t* dst) {
  return RoundRowToInt16(src, size, static_cast<float>(limit), dst);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeToInt16Of);

float QuantizeToInt16(const float* src, int64_t size, int64_t limit,
                      int16_t* dst) {
  return HWY_DYNAMIC_DISPATCH(QuantizeToInt16Of)(src, size, limit, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
