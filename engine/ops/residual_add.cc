#include "engine/ops/residual_add.h"

namespace headrace {

void AddToBus(float* __restrict bus, const float* __restrict write, int64_t n) {
  for (int64_t i = 0; i < n; ++i) bus[i] += write[i];
}

void ScaleWrite(float* write, float scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) write[i] *= scale;
}

}  // namespace headrace
