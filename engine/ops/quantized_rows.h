// Rows of activations as int8 with a scale for each group of 32 values, for
// products in the fast mode with weights that have such scales.
#ifndef HEADRACE_ENGINE_OPS_QUANTIZED_ROWS_H_
#define HEADRACE_ENGINE_OPS_QUANTIZED_ROWS_H_

#include <cstdint>

#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/row_precision.h"

namespace headrace {

// Quantised once, multiplied by as many weights as wanted. Keeps its memory
// from one use to the next. Thread-compatible.
class QuantizedRows {
 public:
  // Makes room for `num_rows` rows of `width` values, so that Quantize() of no
  // more than those allocates nothing.
  void Reserve(int64_t num_rows, int64_t width);

  // Quantises src [num_rows, width], width a multiple of 32, in groups of 32 as
  // README.md says. `src` must stay: products with float weights read it.
  void Quantize(ThreadTeam& team, const float* src, int64_t num_rows,
                int64_t width, RowPrecision precision = RowPrecision::kInt8);

  // Makes room for rows that the caller quantises: groups of all of them.
  // There are no source rows then.
  kernels::QuantizedGroup* Begin(int64_t num_rows, int64_t width);

  const float* src() const { return src_; }
  int64_t num_rows() const { return num_rows_; }
  // Quantised rows of each: 1, or 2 whose products are to be added.
  int64_t terms() const { return terms_; }
  int64_t width() const { return width_; }
  // [num_rows, terms, width / 32]
  const kernels::QuantizedGroup* groups() const { return groups_.data(); }
  // Those of row i.
  const kernels::QuantizedGroup* row(int64_t i) const {
    return groups() + i * terms_ * (width_ / kGroupSize);
  }

 private:
  void QuantizeTwice(ThreadTeam& team);

  const float* src_ = nullptr;
  int64_t num_rows_ = 0;
  int64_t terms_ = 1;
  int64_t width_ = 0;
  AlignedBuffer<kernels::QuantizedGroup> groups_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_QUANTIZED_ROWS_H_
