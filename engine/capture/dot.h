// The dot product of readers: float64, in order.
#ifndef HEADRACE_ENGINE_CAPTURE_DOT_H_
#define HEADRACE_ENGINE_CAPTURE_DOT_H_

#include <cstddef>
#include <span>

namespace headrace {

inline double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_DOT_H_
