#include "engine/ops/quantized_rows.h"

#include <algorithm>
#include <array>

#include "absl/log/check.h"
#include "engine/ops/kernels/quantize_rows.h"

namespace headrace {
namespace {

// Groups of one task: fewer are not worth waking a thread for.
constexpr int64_t kTaskGroups = 512;

// What `group` leaves of x[32], rounded once: float64 holds it exactly.
std::array<float, kGroupSize> Remainder(const float* x,
                                        const kernels::QuantizedGroup& group) {
  std::array<float, kGroupSize> remainder;
  for (size_t k = 0; k < remainder.size(); ++k) {
    remainder[k] = static_cast<float>(double{x[k]} -
                                      double{group.scale} * group.values[k]);
  }
  return remainder;
}

}  // namespace

void QuantizedRows::Reserve(int64_t num_rows, int64_t width) {
  const size_t size = static_cast<size_t>(num_rows * (width / kGroupSize));
  if (groups_.size() < size) {
    groups_ = AlignedBuffer<kernels::QuantizedGroup>(size);
  }
}

kernels::QuantizedGroup* QuantizedRows::Begin(int64_t num_rows, int64_t width) {
  CHECK_EQ(width % kGroupSize, 0);
  Reserve(num_rows, width);
  src_ = nullptr;
  num_rows_ = num_rows;
  terms_ = 1;
  width_ = width;
  return groups_.data();
}

void QuantizedRows::Quantize(ThreadTeam& team, const float* src,
                             int64_t num_rows, int64_t width,
                             RowPrecision precision) {
  const int64_t terms = precision == RowPrecision::kTwiceInt8 ? 2 : 1;
  kernels::QuantizedGroup* groups = Begin(terms * num_rows, width);
  src_ = src;
  num_rows_ = num_rows;
  terms_ = terms;
  if (terms == 2) {
    QuantizeTwice(team);
    return;
  }
  const int64_t num_groups = num_rows * (width / kGroupSize);
  const int64_t num_tasks = (num_groups + kTaskGroups - 1) / kTaskGroups;
  team.ParallelFor(num_tasks, [&](int64_t task, int /*thread_index*/) {
    const int64_t first = task * kTaskGroups;
    const int64_t count = std::min(kTaskGroups, num_groups - first);
    kernels::QuantizeRows(src + first * kGroupSize, 1, count, groups + first,
                          count);
  });
}

void QuantizedRows::QuantizeTwice(ThreadTeam& team) {
  const int64_t row_groups = width_ / kGroupSize;
  team.ParallelFor(num_rows_, [&](int64_t row, int /*thread_index*/) {
    const float* x = src_ + row * width_;
    kernels::QuantizedGroup* first = groups_.data() + 2 * row * row_groups;
    kernels::QuantizeRows(x, 1, row_groups, first, row_groups);
    for (int64_t g = 0; g < row_groups; ++g) {
      const auto remainder = Remainder(x + g * kGroupSize, first[g]);
      kernels::QuantizeRows(remainder.data(), 1, 1, first + row_groups + g, 1);
    }
  });
}

}  // namespace headrace
