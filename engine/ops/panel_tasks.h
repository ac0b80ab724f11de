// How a product of some rows with the panels of a weight is shared out over the
// team.
#ifndef HEADRACE_ENGINE_OPS_PANEL_TASKS_H_
#define HEADRACE_ENGINE_OPS_PANEL_TASKS_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "engine/ops/ops_context.h"

namespace headrace {

// Quantised rows of one task: their sums and what they read stay in the core's
// cache.
inline constexpr int64_t kTaskRows = 256;

// One panel and some rows, for one thread.
struct PanelTask {
  int64_t panel;
  int64_t first_row;
  int64_t num_rows;
  int thread_index;
};

// Runs function(task) for every panel in [0, num_panels) and every row in
// [0, num_rows), once; a task has at most `task_rows`.
inline void ForEachPanel(OpsContext& context, int64_t num_panels,
                         int64_t num_rows, int64_t task_rows,
                         absl::FunctionRef<void(const PanelTask&)> function) {
  // Runs of panels per thread, so that a thread that is held up does not hold
  // up the others.
  constexpr int64_t kRunsPerThread = 8;
  const int64_t row_blocks = (num_rows + task_rows - 1) / task_rows;
  const int64_t block_rows = (num_rows + row_blocks - 1) / row_blocks;
  const int64_t runs = std::min(
      num_panels,
      std::max<int64_t>(
          1, kRunsPerThread * context.team().num_threads() / row_blocks));
  context.team().ParallelFor(
      row_blocks * runs, [&](int64_t index, int thread_index) {
        const int64_t run = index / row_blocks;
        const int64_t row = index % row_blocks * block_rows;
        const int64_t end = num_panels * (run + 1) / runs;
        for (int64_t p = num_panels * run / runs; p < end; ++p) {
          function({.panel = p,
                    .first_row = row,
                    .num_rows = std::min(block_rows, num_rows - row),
                    .thread_index = thread_index});
        }
      });
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PANEL_TASKS_H_
