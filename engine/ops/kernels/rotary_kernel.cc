// See rotary_kernel.h.
#include "engine/ops/kernels/rotary_kernel.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/rotary_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

struct Pair {
  Vector x, y;
};

HWY_INLINE Pair Rotate(Vector x, Vector y, Vector c, Vector s) {
  return {hn::Sub(hn::Mul(x, c), hn::Mul(y, s)),
          hn::Add(hn::Mul(y, c), hn::Mul(x, s))};
}

// The rest of a head that fills no vector.
HWY_INLINE void RotateOne(float& x, float& y, float c, float s) {
  const float xc = x * c;
  const float xs = x * s;
  x = xc - y * s;
  y = y * c + xs;
}

void RotateHalfSplit(float* head, const float* cos, const float* sin,
                     int64_t num_pairs) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float* second = head + num_pairs;
  int64_t i = 0;
  for (; i + lanes <= num_pairs; i += lanes) {
    const Pair p = Rotate(hn::LoadU(d, head + i), hn::LoadU(d, second + i),
                          hn::LoadU(d, cos + i), hn::LoadU(d, sin + i));
    hn::StoreU(p.x, d, head + i);
    hn::StoreU(p.y, d, second + i);
  }
  for (; i < num_pairs; ++i) RotateOne(head[i], second[i], cos[i], sin[i]);
}

void RotateInterleaved(float* head, const float* cos, const float* sin,
                       int64_t num_pairs) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= num_pairs; i += lanes) {
    Vector x;
    Vector y;
    hn::LoadInterleaved2(d, head + 2 * i, x, y);
    const Pair p = Rotate(x, y, hn::LoadU(d, cos + i), hn::LoadU(d, sin + i));
    hn::StoreInterleaved2(p.x, p.y, d, head + 2 * i);
  }
  for (; i < num_pairs; ++i) {
    RotateOne(head[2 * i], head[2 * i + 1], cos[i], sin[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(RotateHalfSplit);
HWY_EXPORT(RotateInterleaved);

void RotateHalfSplit(float* head, const float* cos, const float* sin,
                     int64_t num_pairs) {
  HWY_DYNAMIC_DISPATCH(RotateHalfSplit)(head, cos, sin, num_pairs);
}
void RotateInterleaved(float* head, const float* cos, const float* sin,
                       int64_t num_pairs) {
  HWY_DYNAMIC_DISPATCH(RotateInterleaved)(head, cos, sin, num_pairs);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
