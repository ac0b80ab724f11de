// Numbers of the exponential and of GELU, shared by the kernels and by the
// scalar code that tests them. The polynomials are Chebyshev fits computed with
// 50 digits.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_CONSTANTS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_CONSTANTS_H_

#include <cstdint>

namespace headrace::kernels {

// Adding 1.5 * 2^23 rounds to an integer (ties to even) and leaves it in the
// low bits of the mantissa.
inline constexpr float kExpShifter = 12582912.0f;
inline constexpr float kLog2E = 1.44269504089f;
// ln 2 = high + low; n * high is exact for |n| < 2^14.
inline constexpr float kLn2High = 0.693359375f;
inline constexpr float kLn2Low = -2.12194440055e-4f;
inline constexpr int32_t kFloatOneBits = 127 << 23;
inline constexpr float kExpFlush = -87.3f;  // just above ln(FLT_MIN)
inline constexpr float kExpLowest = -105.0f;
inline constexpr float kExpHighest = 89.0f;

// exp(r), highest power first; relative error 1.0e-8 on |r| <= 0.347.
inline constexpr int kNumExpCoefficients = 7;
inline constexpr float kExpCoefficients[kNumExpCoefficients] = {
    1.39262508315e-3f,
    8.36323288368e-3f,
    4.1666554213e-2f,
    0.166665766661f,
    0.5f,
    1.0f,
    1.0f};

// 2^r, highest power first; relative error 9.2e-8 on |r| <= 0.5.
inline constexpr int kNumExp2Coefficients = 6;
inline constexpr float kExp2Coefficients[kNumExp2Coefficients] = {
    1.326472731e-3f, 9.671512991e-3f, 5.550733581e-2f,
    0.2402224243f,   0.6931470037f,   1.0f};

// GELU, tanh form: x * sigmoid(x * (kGeluLinear + kGeluCubic * x^2)), with
// kGeluLinear = 2 sqrt(2 / pi) and kGeluCubic = 0.044715 of it.
inline constexpr float kGeluLinear = 1.59576912161f;
inline constexpr float kGeluCubic = 0.0713548162726f;

// The normal distribution's upper tail: for x >= 0 and t = a / (a + x),
// P(X > x) = exp(-x^2 / 2) * t * polynomial(t), highest power first; relative
// error 1.9e-8 for x <= 14.
inline constexpr float kNormalTailA = 2.5f;
inline constexpr int kNumNormalTailCoefficients = 10;
inline constexpr float kNormalTailCoefficients[kNumNormalTailCoefficients] = {
    0.0321756271437f, -0.176708650942f,  0.38228438611f,   -0.374264192249f,
    0.119853908761f,  -0.0271011086435f, 0.0914365828839f, 0.133117762459f,
    0.159629899312f,  0.159575791814f};

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ACTIVATION_CONSTANTS_H_
