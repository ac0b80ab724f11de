// Sums whose order is written down, so that every machine gets the same bits.
#ifndef HEADRACE_ENGINE_SAMPLING_SUM_H_
#define HEADRACE_ENGINE_SAMPLING_SUM_H_

#include <cstddef>
#include <span>

namespace headrace {

// In float64: four sums of every fourth value each, then (0 + 1) + (2 + 3);
// the last size % 4 values go to the first of them. One running sum would wait
// for each addition.
inline double SumInFixedOrder(std::span<const float> values) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += values[i + lane];
  }
  for (; i < values.size(); ++i) sums[0] += values[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_SUM_H_
