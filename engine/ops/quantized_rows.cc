#include "engine/ops/quantized_rows.h"

#include <algorithm>

#include "absl/log/check.h"
#include "engine/ops/kernels/quantize_rows.h"

namespace headrace {
namespace {

// Groups of one task: fewer are not worth waking a thread for.
constexpr int64_t kTaskGroups = 512;

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
  width_ = width;
  return groups_.data();
}

void QuantizedRows::Quantize(ThreadTeam& team, const float* src,
                             int64_t num_rows, int64_t width) {
  kernels::QuantizedGroup* groups = Begin(num_rows, width);
  src_ = src;
  const int64_t num_groups = num_rows * (width / kGroupSize);
  const int64_t num_tasks = (num_groups + kTaskGroups - 1) / kTaskGroups;
  team.ParallelFor(num_tasks, [&](int64_t task, int /*thread_index*/) {
    const int64_t first = task * kTaskGroups;
    const int64_t count = std::min(kTaskGroups, num_groups - first);
    kernels::QuantizeRows(src + first * kGroupSize, 1, count, groups + first,
                          count);
  });
}

}  // namespace headrace
