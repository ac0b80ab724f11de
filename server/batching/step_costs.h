// What steps cost on this machine with this model, as measured while they run:
// the scheduler sizes prompt chunks and drafts by it.
#ifndef HEADRACE_SERVER_BATCHING_STEP_COSTS_H_
#define HEADRACE_SERVER_BATCHING_STEP_COSTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace headrace {

// Owned by the batch loop.
class StepCosts {
 public:
  // A step of `rows` rows took `time`.
  void Measure(int64_t rows, absl::Duration time);

  // One row of many; zero when no step had many. A dearer step counts at once
  // (doubling the cost at the most), a cheaper one by and by: rows get dearer
  // with depth, and prompt chunks too large are what the bound on the decode
  // stall is against.
  absl::Duration per_row() const { return per_row_; }
  // A step of a few rows: measured, or between its measured neighbours, or
  // beyond them at per_row() a row; zero when nothing near was measured.
  absl::Duration OfStep(int64_t rows) const;

 private:
  static constexpr size_t kFewRows = 32;

  std::array<absl::Duration, kFewRows + 1> few_{};  // by rows; zero: unknown
  absl::Duration per_row_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_STEP_COSTS_H_
