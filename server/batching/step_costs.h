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
  // beyond them at per_row() a row; zero when no fewer rows were measured. What
  // was measured long ago is forgotten: context grows, machines change.
  absl::Duration OfStep(int64_t rows) const;

 private:
  static constexpr int64_t kFewRows = 32;
  static constexpr int64_t kForgottenAfter = 1000;  // steps

  struct Entry {
    absl::Duration mean;
    int64_t step = 0;  // when it was measured; 0: never
  };
  bool Known(int64_t rows) const {
    const Entry& entry = few_[static_cast<size_t>(rows)];
    return entry.step > 0 && steps_ - entry.step < kForgottenAfter;
  }
  absl::Duration Mean(int64_t rows) const {
    return few_[static_cast<size_t>(rows)].mean;
  }

  std::array<Entry, kFewRows + 1> few_{};  // by rows
  absl::Duration per_row_;
  int64_t steps_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_STEP_COSTS_H_
