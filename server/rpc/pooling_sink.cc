#include "server/rpc/pooling_sink.h"

#include <cmath>
#include <cstddef>

namespace headrace {

void PoolingSink::OnRow(const CapturedRow& row) {
  pooled_->sum.resize(row.values.size());
  for (size_t i = 0; i < row.values.size(); ++i) {
    pooled_->sum[i] += static_cast<double>(row.values[i]);
  }
  ++pooled_->rows;
}

std::vector<float> MeanRow(const PooledRows& pooled, bool normalize) {
  std::vector<double> mean = pooled.sum;
  double squares = 0;
  for (double& value : mean) {
    value /= static_cast<double>(pooled.rows);
    squares += value * value;
  }
  const double divisor = normalize && squares > 0 ? std::sqrt(squares) : 1.0;
  std::vector<float> rounded;
  rounded.reserve(mean.size());
  for (const double value : mean) {
    rounded.push_back(static_cast<float>(value / divisor));
  }
  return rounded;
}

}  // namespace headrace
