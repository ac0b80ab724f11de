#include "engine/ops/int8_rows.h"

#include <cstddef>
#include <vector>

#include "absl/log/check.h"
#include "engine/ops/kernels/int8_row.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

void Int8Rows::Reserve(int64_t num_rows, int64_t width) {
  const auto size = static_cast<size_t>(num_rows * width);
  if (values_.size() < size) values_ = AlignedBuffer<uint8_t>(size);
  const auto rows = static_cast<size_t>(num_rows);
  if (scales_.size() < rows) scales_ = AlignedBuffer<float>(rows);
}

void Int8Rows::Begin(int64_t num_rows, int64_t width) {
  CHECK_EQ(width % kGroupSize, 0);
  Reserve(num_rows, width);
  src_ = nullptr;
  num_rows_ = num_rows;
  terms_ = 1;
  width_ = width;
}

void Int8Rows::QuantizeRow(int64_t row, const float* src) {
  scales_.data()[row] =
      kernels::QuantizeInt8Row(src, width_, values_.data() + row * width_);
}

void Int8Rows::Quantize(ThreadTeam& team, const float* src, int64_t num_rows,
                        int64_t width, RowPrecision precision) {
  const int64_t terms = precision == RowPrecision::kTwiceInt8 ? 2 : 1;
  Begin(terms * num_rows, width);
  src_ = src;
  num_rows_ = num_rows;
  terms_ = terms;
  ForEachRow(team, num_rows, width, [&](int64_t row, int /*thread_index*/) {
    if (terms == 2) {
      QuantizeTwice(row, src + row * width);
    } else {
      QuantizeRow(row, src + row * width);
    }
  });
}

void Int8Rows::QuantizeTwice(int64_t row, const float* src) {
  QuantizeRow(2 * row, src);
  const double scale = scales(row)[0];
  const uint8_t* values = this->values(row);
  std::vector<float> remainder(static_cast<size_t>(width_));
  for (size_t k = 0; k < remainder.size(); ++k) {
    // Rounded once: float64 holds it exactly.
    remainder[k] = static_cast<float>(
        double{src[k]} - scale * (values[k] - kernels::kInt8RowOffset));
  }
  QuantizeRow(2 * row + 1, remainder.data());
}

}  // namespace headrace
