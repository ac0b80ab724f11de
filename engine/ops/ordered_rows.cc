#include "engine/ops/ordered_rows.h"

#include <cstddef>

#include "engine/ops/row_tasks.h"

namespace headrace {

void OrderedRows::Reserve(int64_t num_rows, int64_t width) {
  const auto size = static_cast<size_t>(num_rows * width);
  if (rows_.size() < size) rows_ = AlignedBuffer<float>(size);
}

const float* OrderedRows::Order(ThreadTeam& team, const float* src,
                                int64_t num_rows,
                                std::span<const int32_t> order) {
  const auto width = static_cast<int64_t>(order.size());
  Reserve(num_rows, width);
  ForEachRow(team, num_rows, width, [&](int64_t row, int /*thread_index*/) {
    const float* from = src + row * width;
    float* to = rows_.data() + row * width;
    for (size_t i = 0; i < order.size(); ++i) to[i] = from[order[i]];
  });
  return rows_.data();
}

}  // namespace headrace
