#include "engine/rope/rope_table.h"

#include <cmath>
#include <cstddef>

#include "absl/log/check.h"

namespace headrace {

void ComputeRopeRow(const EffectiveRope& rope, int64_t position,
                    std::span<float> cos, std::span<float> sin) {
  const size_t num_pairs = rope.inv_freqs.size();
  CHECK_EQ(cos.size(), num_pairs);
  CHECK_EQ(sin.size(), num_pairs);
  for (size_t i = 0; i < num_pairs; ++i) {
    const double angle = static_cast<double>(position) * rope.inv_freqs[i];
    cos[i] = static_cast<float>(std::cos(angle) * rope.attention_factor);
    sin[i] = static_cast<float>(std::sin(angle) * rope.attention_factor);
  }
}

}  // namespace headrace
