// A mean of durations that forgets.
#ifndef HEADRACE_SERVER_BATCHING_MOVING_MEAN_H_
#define HEADRACE_SERVER_BATCHING_MOVING_MEAN_H_

#include "absl/time/time.h"

namespace headrace {

// The mean with a newest sample, which weighs a fifth; the first sample is the
// mean.
inline absl::Duration MovingMean(absl::Duration mean, absl::Duration sample) {
  constexpr double kNewSampleWeight = 0.2;
  if (mean == absl::ZeroDuration()) return sample;
  return mean + (sample - mean) * kNewSampleWeight;
}

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_MOVING_MEAN_H_
