#include "engine/model/residual_bus.h"

#include <algorithm>

#include "engine/ops/residual_add.h"

namespace headrace {

void ResidualBus::Add(ThreadTeam& team, const float* write) {
  AddToBus(team, rows_.data(), write, num_rows_ * hidden_size_);
}

void ResidualBus::Keep(std::span<const int32_t> kept) {
  for (size_t i = 0; i < kept.size(); ++i) {
    std::ranges::copy(row(kept[i]), row(static_cast<int64_t>(i)).begin());
  }
  num_rows_ = static_cast<int64_t>(kept.size());
}

void ResidualBus::Restore(std::span<const int32_t> kept) {
  // From behind: no row is overwritten before it is moved.
  for (size_t i = kept.size(); i-- > 0;) {
    std::ranges::copy(row(static_cast<int64_t>(i)), row(kept[i]).begin());
  }
}

}  // namespace headrace
