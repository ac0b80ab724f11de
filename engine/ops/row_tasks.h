// Rows shared out over the team, for operations that treat every row alone.
#ifndef HEADRACE_ENGINE_OPS_ROW_TASKS_H_
#define HEADRACE_ENGINE_OPS_ROW_TASKS_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/base/thread_team.h"

namespace headrace {

// Runs row_function(row, thread_index) for every row in [0, num_rows), in tasks
// of about 16384 elements (some microseconds), so few rows cost no parallel
// region.
inline void ForEachRow(
    ThreadTeam& team, int64_t num_rows, int64_t elements_per_row,
    absl::FunctionRef<void(int64_t row, int thread_index)> row_function) {
  constexpr int64_t kTaskElements = 16384;
  const int64_t task_rows = std::max<int64_t>(
      1, kTaskElements / std::max<int64_t>(1, elements_per_row));
  const int64_t num_tasks = (num_rows + task_rows - 1) / task_rows;
  team.ParallelFor(num_tasks, [&](int64_t task, int thread_index) {
    const int64_t end = std::min((task + 1) * task_rows, num_rows);
    for (int64_t row = task * task_rows; row < end; ++row) {
      row_function(row, thread_index);
    }
  });
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ROW_TASKS_H_
