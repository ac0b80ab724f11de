// How one call of Attention() is cut into tasks: which rows share a pass over
// the keys and values, and which passes are split into their parts. None of it
// changes a result.
#ifndef HEADRACE_ENGINE_OPS_ATTENTION_PLAN_H_
#define HEADRACE_ENGINE_OPS_ATTENTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "engine/ops/attention.h"
#include "engine/ops/kernels/attention_kernel.h"

namespace headrace {

// Rows of one sequence that read one key/value head together.
struct AttentionUnit {
  kernels::AttentionRows rows;
  int64_t dst_row = 0;     // of the first token
  int64_t first_head = 0;  // query head
  int64_t first_part = 0;
  int64_t num_parts = 0;
  // Each part is a task of its own and leaves its state in the partials from
  // this offset on, one after the other; -1: one task does it all.
  int64_t partials_offset = -1;

  bool split() const { return partials_offset >= 0; }
};

struct AttentionTask {
  int64_t unit = 0;
  int64_t part = 0;  // of a split unit, counted from its first
};

// Floats that the states of `num_rows` rows take; a multiple of 16.
int64_t AttentionStateFloats(int64_t num_rows, int64_t width);

// The state that lies at `memory`, which is 64-byte aligned.
kernels::AttentionState AttentionStateAt(float* memory, int64_t num_rows);

// Keeps its memory from call to call.
struct AttentionPlan {
  std::vector<AttentionUnit> units;
  std::vector<AttentionTask> tasks;

  // num_partials: floats there are for the results of split units. A unit for
  // which there is no room is not split.
  void Build(const AttentionInputs& inputs, int num_threads,
             int64_t num_partials);

 private:
  void AddSequence(const AttentionInputs& inputs,
                   const AttentionSequence& sequence);
  void AddTasks(int num_threads, int64_t num_partials);
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ATTENTION_PLAN_H_
