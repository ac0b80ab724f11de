// Position as a rotation of queries and keys: the cos and sin rows of one
// step, computed once and used by every layer, so that a RoPE per request
// costs nothing.
#ifndef HEADRACE_ENGINE_POSITION_ROTARY_ROWS_H_
#define HEADRACE_ENGINE_POSITION_ROTARY_ROWS_H_

#include <cstdint>

#include "engine/base/aligned_buffer.h"
#include "engine/rope/rope_params.h"

namespace headrace {

// Owned by the batch loop.
class RotaryRows {
 public:
  RotaryRows() = default;
  // num_pairs: pairs of a head that rotate.
  RotaryRows(int64_t max_rows, int64_t num_pairs);

  // Row `row` of the step stands at `position` of a sequence under `rope`.
  void SetRow(int64_t row, int64_t position, const EffectiveRope& rope);

  int64_t num_pairs() const { return num_pairs_; }
  // [num_rows, num_pairs]
  const float* cos() const { return cos_.data(); }
  const float* sin() const { return sin_.data(); }

 private:
  int64_t num_pairs_ = 0;
  AlignedBuffer<float> cos_;
  AlignedBuffer<float> sin_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_POSITION_ROTARY_ROWS_H_
