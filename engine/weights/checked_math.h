// Arithmetic on numbers that come from files: no sum or product may wrap.
#ifndef HEADRACE_ENGINE_WEIGHTS_CHECKED_MATH_H_
#define HEADRACE_ENGINE_WEIGHTS_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace headrace {

// nullopt when the result does not fit 64 bits.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_CHECKED_MATH_H_
