// The one way in which 16 partial sums become one number.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_SUM_OF_LANES_H_
#define HEADRACE_ENGINE_OPS_KERNELS_SUM_OF_LANES_H_

namespace headrace::kernels {

// Reductions keep this many partial sums, whatever the width of a register.
inline constexpr int kSumLanes = 16;

// Lane i + 8 is added to lane i, then i + 4, i + 2, i + 1.
inline float SumOfLanes(const float* lanes) {
  float sums[kSumLanes / 2];
  for (int i = 0; i < 8; ++i) sums[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) sums[i] += sums[i + 4];
  for (int i = 0; i < 2; ++i) sums[i] += sums[i + 2];
  return sums[0] + sums[1];
}

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_SUM_OF_LANES_H_
