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
  if (rows <= static_cast<int64_t>(kFewRows)) {
    absl::Duration& mean = few_[static_cast<size_t>(rows)];
    mean = MovingMean(mean, time);
  }
}

absl::Duration StepCosts::OfStep(int64_t rows) const {
  if (rows <= 0) return absl::ZeroDuration();
  const size_t wanted = std::min(static_cast<size_t>(rows), kFewRows);
  size_t below = wanted;
  while (below > 0 && few_[below] == absl::ZeroDuration()) --below;
  if (below == 0) return absl::ZeroDuration();
  size_t above = wanted;
  while (above <= kFewRows && few_[above] == absl::ZeroDuration()) ++above;
  if (above > kFewRows || static_cast<int64_t>(below) == rows) {
    return few_[below] + per_row_ * (rows - static_cast<int64_t>(below));
  }
  const double share =
      static_cast<double>(wanted - below) / static_cast<double>(above - below);
  return few_[below] + (few_[above] - few_[below]) * share;
}

}  // namespace headrace
