#include "engine/ops/rotary.h"

#include "engine/ops/kernels/rotary_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void ApplyRotary(ThreadTeam& team, const RotaryInputs& inputs) {
  const int64_t num_pairs = inputs.rotary_dim / 2;
  const auto rotate = inputs.layout == PairLayout::kHalfSplit
                          ? kernels::RotateHalfSplit
                          : kernels::RotateInterleaved;
  ForEachRow(team, inputs.num_rows, inputs.num_heads * inputs.rotary_dim,
             [&](int64_t row, int /*thread_index*/) {
               float* heads = inputs.heads + row * inputs.row_stride;
               for (int64_t head = 0; head < inputs.num_heads; ++head) {
                 rotate(heads + head * inputs.head_dim,
                        inputs.cos + row * num_pairs,
                        inputs.sin + row * num_pairs, num_pairs);
               }
             });
}

}  // namespace headrace
