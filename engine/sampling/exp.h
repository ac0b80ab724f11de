// exp for softmax: float32, made of additions, multiplications and bit moves
// alone, so that it gives the same bits on every machine and that compilers
// vectorise loops over it. A library's exp does neither.
#ifndef HEADRACE_ENGINE_SAMPLING_EXP_H_
#define HEADRACE_ENGINE_SAMPLING_EXP_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace headrace {

// e^x for x <= 0, within 2 units of the last place; 0 below -87, where float32
// is about to be denormal, and for NaN; exactly 1 at 0.
inline float ExpOfNonPositive(float x) {
  // The sign bit is known. Choices are made with integers and masks: compilers
  // do not vectorise branches, nor comparisons of floats.
  constexpr int32_t kMagnitudeOf87 = 0x42AE0000;
  constexpr float kLog2E = 1.44269504F;
  // ln 2 in two parts; the first has few bits, so its multiples are exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // Adding 1.5 * 2^23 rounds to a whole number in the lowest bits.
  constexpr float kRound = 12582912.0F;
  constexpr int32_t kRoundBits = 0x4B400000;

  const int32_t magnitude = std::bit_cast<int32_t>(x) & 0x7FFFFFFF;
  // All ones up to 87, else zero.
  const int32_t mask = (magnitude - (kMagnitudeOf87 + 1)) >> 31;
  const float clamped =
      -std::bit_cast<float>(std::min(magnitude, kMagnitudeOf87));
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor's series: the first term left out is below 6e-9.
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - kRoundBits + 127;
  const float result = sum * std::bit_cast<float>(exponent << 23);
  return std::bit_cast<float>(std::bit_cast<int32_t>(result) & mask);
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_EXP_H_
