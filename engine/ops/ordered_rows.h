// Rows of activations with their inputs in the order in which a weight has
// them.
#ifndef HEADRACE_ENGINE_OPS_ORDERED_ROWS_H_
#define HEADRACE_ENGINE_OPS_ORDERED_ROWS_H_

#include <cstdint>
#include <span>

#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"

namespace headrace {

// Keeps its memory from one use to the next. Thread-compatible.
class OrderedRows {
 public:
  // Makes room for `num_rows` rows of `width` values, so that Order() of no
  // more than those allocates nothing.
  void Reserve(int64_t num_rows, int64_t width);

  // Rows [num_rows, order.size()] whose value i is value order[i] of src's row.
  // They stay until the next call.
  const float* Order(ThreadTeam& team, const float* src, int64_t num_rows,
                     std::span<const int32_t> order);

 private:
  AlignedBuffer<float> rows_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ORDERED_ROWS_H_
