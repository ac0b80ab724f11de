// See activation_kernel.h.
#include "engine/ops/kernels/activation_kernel.h"

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/activation_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/activation_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

struct Silu {
  HWY_INLINE Vector operator()(Floats d, Vector x) const {
    const Vector e = Exp(d, hn::Neg(x));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
  }
};

struct GeluTanh {
  HWY_INLINE Vector operator()(Floats d, Vector x) const {
    const Vector slope = hn::MulAdd(hn::Mul(x, x), hn::Set(d, kGeluCubic),
                                    hn::Set(d, kGeluLinear));
    const Vector e = Exp(d, hn::Neg(hn::Mul(x, slope)));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
  }
};

struct GeluErf {
  HWY_INLINE Vector operator()(Floats d, Vector x) const {
    const Vector a = hn::Set(d, kNormalTailA);
    const Vector t = hn::Div(a, hn::Add(a, hn::Abs(x)));
    const Vector p = Polynomial(d, kNormalTailCoefficients, t);
    const Vector minus_half = hn::Set(d, -0.5f);
    const Vector e = ExpNonPositive(d, hn::Mul(hn::Mul(x, x), minus_half));
    const Vector tail = hn::Mul(hn::Mul(p, t), e);
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, tail),
                          hn::NegMulAdd(x, tail, x));
  }
};

template <class Function>
HWY_INLINE void ForRow(const float* gate, const float* up, int64_t n,
                       float* dst) {
  const Floats d;
  const Function function;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector y = function(d, hn::LoadU(d, gate + i));
    if (up != nullptr) y = hn::Mul(y, hn::LoadU(d, up + i));
    hn::StoreU(y, d, dst + i);
  }
  if (i == n) return;
  const size_t rest = static_cast<size_t>(n - i);
  Vector y = function(d, hn::LoadN(d, gate + i, rest));
  if (up != nullptr) y = hn::Mul(y, hn::LoadN(d, up + i, rest));
  hn::StoreN(y, d, dst + i, rest);
}

void SiluRow(const float* gate, const float* up, int64_t n, float* dst) {
  ForRow<Silu>(gate, up, n, dst);
}
void GeluErfRow(const float* gate, const float* up, int64_t n, float* dst) {
  ForRow<GeluErf>(gate, up, n, dst);
}
void GeluTanhRow(const float* gate, const float* up, int64_t n, float* dst) {
  ForRow<GeluTanh>(gate, up, n, dst);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(SiluRow);
HWY_EXPORT(GeluErfRow);
HWY_EXPORT(GeluTanhRow);

void SiluRow(const float* gate, const float* up, int64_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(SiluRow)(gate, up, n, dst);
}
void GeluErfRow(const float* gate, const float* up, int64_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(GeluErfRow)(gate, up, n, dst);
}
void GeluTanhRow(const float* gate, const float* up, int64_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(GeluTanhRow)(gate, up, n, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
