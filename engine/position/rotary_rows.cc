#include "engine/position/rotary_rows.h"

#include <cstddef>
#include <span>

#include "engine/rope/rope_table.h"

namespace headrace {

RotaryRows::RotaryRows(int64_t max_rows, int64_t num_pairs)
    : num_pairs_(num_pairs),
      cos_(static_cast<size_t>(max_rows * num_pairs)),
      sin_(static_cast<size_t>(max_rows * num_pairs)) {}

void RotaryRows::SetRow(int64_t row, int64_t position,
                        const EffectiveRope& rope) {
  const auto width = static_cast<size_t>(num_pairs_);
  ComputeRopeRow(rope, position, {cos_.data() + row * num_pairs_, width},
                 {sin_.data() + row * num_pairs_, width});
}

}  // namespace headrace
