#include "engine/ops/residual_add.h"

#include <algorithm>

#include "engine/ops/row_tasks.h"

namespace headrace {
namespace {

// Elements that one thread adds at a time.
constexpr int64_t kRun = 4096;

void AddRun(float* __restrict bus, const float* __restrict write, int64_t n) {
  for (int64_t i = 0; i < n; ++i) bus[i] += write[i];
}

}  // namespace

void AddToBus(ThreadTeam& team, float* bus, const float* write, int64_t n) {
  ForEachRow(team, (n + kRun - 1) / kRun, kRun,
             [&](int64_t run, int /*thread_index*/) {
               const int64_t first = run * kRun;
               AddRun(bus + first, write + first, std::min(kRun, n - first));
             });
}

void ScaleWrite(float* write, float scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) write[i] *= scale;
}

}  // namespace headrace
