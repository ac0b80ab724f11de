// Exponentials for kernels, compiled once per instruction set. Every operation
// is exact or rounded once as IEEE 754 says, in a written order, so instruction
// sets with fused multiply-add agree in every bit (SSE4 has none and differs in
// the last).

// Per-target include guard, in Highway's manner.
// NOLINTNEXTLINE(llvm-header-guard)
#if defined(HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_MATH_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_MATH_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_MATH_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_MATH_INL_H_
#endif

#include "engine/ops/kernels/activation_constants.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Horner, highest power first.
template <int kCount, class D, class V = hn::Vec<D>>
HWY_INLINE V Polynomial(D d, const float (&coefficients)[kCount], V x) {
  V p = hn::Set(d, coefficients[0]);
  for (int i = 1; i < kCount; ++i) {
    p = hn::MulAdd(p, x, hn::Set(d, coefficients[i]));
  }
  return p;
}

// exp(x) for x <= 0, within 2 ulp and 1.4e-8 |x| of itself, so within 1.3e-7 of
// exp(0); 1 for 0; 0 below kExpFlush, where the result is no longer a normal
// number. NaN gives NaN; x > 0 is not supported.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNonPositive(D d, V x) {
  // exp(x) = 2^n * 2^r, n = round(x / ln 2), |r| <= 0.5.
  const hn::RebindToSigned<D> di;
  const V shifter = hn::Set(d, kExpShifter);
  const V log2_e = hn::Set(d, kLog2E);
  const V shifted_n = hn::MulAdd(x, log2_e, shifter);  // n is in the low bits
  const V r = hn::MulSub(x, log2_e, hn::Sub(shifted_n, shifter));
  const auto scale = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted_n)),
                             hn::Set(di, kFloatOneBits));
  const V e =
      hn::Mul(Polynomial(d, kExp2Coefficients, r), hn::BitCast(d, scale));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kExpFlush)), e);
}

// exp(x) for every x, within 1 ulp of normal results: subnormal, then 0, at the
// lower end; infinity at the upper. NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  // In this order of operands x86 lets a NaN in `x` through.
  x = hn::Max(hn::Set(d, kExpLowest), hn::Min(hn::Set(d, kExpHighest), x));
  // exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2.
  const V shifter = hn::Set(d, kExpShifter);
  const V shifted_n = hn::MulAdd(x, hn::Set(d, kLog2E), shifter);
  const V rounded = hn::Sub(shifted_n, shifter);
  V r = hn::NegMulAdd(rounded, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(rounded, hn::Set(d, kLn2Low), r);
  const auto n = hn::Sub(hn::BitCast(di, shifted_n), hn::BitCast(di, shifter));
  // 2^n in two factors, each a normal number.
  const auto one = hn::Set(di, kFloatOneBits);
  const auto half_n = hn::ShiftRight<1>(n);
  const auto low = hn::Add(hn::ShiftLeft<23>(half_n), one);
  const auto high = hn::Add(hn::ShiftLeft<23>(hn::Sub(n, half_n)), one);
  const V e = hn::Mul(Polynomial(d, kExpCoefficients, r), hn::BitCast(d, low));
  return hn::Mul(e, hn::BitCast(d, high));
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_MATH_INL_H_
