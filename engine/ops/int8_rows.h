// Rows of activations as int8 with one scale each, for products in the fast
// mode with weights that have one scale for each output.
#ifndef HEADRACE_ENGINE_OPS_INT8_ROWS_H_
#define HEADRACE_ENGINE_OPS_INT8_ROWS_H_

#include <cstdint>

#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/ops/row_precision.h"

namespace headrace {

// As QuantizedRows, whose rows have a scale for each group of 32 values. Keeps
// its memory from one use to the next. Thread-compatible.
class Int8Rows {
 public:
  // Makes room for `num_rows` rows of `width` values, so that Quantize() of no
  // more than those allocates nothing.
  void Reserve(int64_t num_rows, int64_t width);

  // Quantises src [num_rows, width], width a multiple of 32, as README.md says.
  // `src` must stay: products with float weights read it.
  void Quantize(ThreadTeam& team, const float* src, int64_t num_rows,
                int64_t width, RowPrecision precision = RowPrecision::kInt8);

  // Makes room for rows that the caller quantises, each by QuantizeRow(), on
  // several threads if wanted. There are no source rows then.
  void Begin(int64_t num_rows, int64_t width);
  void QuantizeRow(int64_t row, const float* src);

  const float* src() const { return src_; }
  int64_t num_rows() const { return num_rows_; }
  // Quantised rows of each: 1, or 2 whose products are to be added.
  int64_t terms() const { return terms_; }
  int64_t width() const { return width_; }
  // Those of row i and the following, [terms, width]: bytes a + 128.
  const uint8_t* values(int64_t i) const {
    return values_.data() + i * terms_ * width_;
  }
  const float* scales(int64_t i) const { return scales_.data() + i * terms_; }

 private:
  void QuantizeTwice(int64_t row, const float* src);

  const float* src_ = nullptr;
  int64_t num_rows_ = 0;
  int64_t terms_ = 1;
  int64_t width_ = 0;
  AlignedBuffer<uint8_t> values_;
  AlignedBuffer<float> scales_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_INT8_ROWS_H_
