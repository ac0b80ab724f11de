#include "engine/model/residual_bus.h"

#include "engine/ops/residual_add.h"

namespace headrace {

void ResidualBus::Add(const float* write) {
  AddToBus(rows_.data(), write, num_rows_ * hidden_size_);
}

}  // namespace headrace
