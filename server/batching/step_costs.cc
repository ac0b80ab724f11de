#include "server/batching/step_costs.h"

#include <algorithm>

#include "server/batching/moving_mean.h"

namespace headrace {

namespace {

// Steps with fewer rows say little about the time of one of many.
constexpr int64_t kManyRows = 16;
// What a dearer step may raise the cost of a row to, at once: more would let
// one hiccup of the machine slow prompts down for long.
constexpr double kMaxRise = 2;

}  // namespace

void StepCosts::Measure(int64_t rows, absl::Duration time) {
  if (rows <= 0) return;
  if (rows >= kManyRows) {
    const absl::Duration sample = time / rows;
    per_row_ = per_row_ == absl::ZeroDuration() || sample < per_row_
                   ? MovingMean(per_row_, sample)
                   : std::min(sample, per_row_ * kMaxRise);
  }
  ++steps_;
  if (rows > kFewRows) return;
  const bool known = Known(rows);
  Entry& entry = few_[static_cast<size_t>(rows)];
  entry = {.mean = known ? MovingMean(entry.mean, time) : time, .step = steps_};
}

absl::Duration StepCosts::OfStep(int64_t rows) const {
  int64_t below = std::min(rows, kFewRows);
  while (below > 0 && !Known(below)) --below;
  if (below <= 0) return absl::ZeroDuration();
  int64_t above = rows;
  while (above <= kFewRows && !Known(above)) ++above;
  if (above > kFewRows) return Mean(below) + per_row_ * (rows - below);
  if (above == below) return Mean(below);
  const double share =
      static_cast<double>(rows - below) / static_cast<double>(above - below);
  return Mean(below) + (Mean(above) - Mean(below)) * share;
}

}  // namespace headrace
