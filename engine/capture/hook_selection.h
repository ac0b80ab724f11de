// One hook and some of its layers, and heads, resolved.
#ifndef HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_
#define HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "engine/model/hook_point.h"

namespace headrace {

struct LayerHead {
  int32_t layer;
  int32_t head;
  auto operator<=>(const LayerHead&) const = default;
};

struct HookSelection {
  HookPoint hook;
  std::vector<int32_t> layers;  // ascending; {-1} for hooks without a layer
  // Hooks with a row for each head and a value for each key (kAttnScores,
  // kAttnProbs): which heads, ascending; how many of the keys, the ones with
  // the largest values (0: all); and the width of a row at the most.
  std::vector<LayerHead> heads;
  int32_t top_keys = 0;
  int64_t key_width = 0;

  // Rows of one position.
  int64_t num_rows() const {
    return static_cast<int64_t>(heads.empty() ? layers.size() : heads.size());
  }

  bool Has(HookPoint point, int32_t layer) const {
    return hook == point &&
           std::binary_search(layers.begin(), layers.end(), layer);
  }
};

// Rows by key are padded to a multiple of so many keys, so that neighbours are
// mostly of one width.
inline constexpr int64_t kKeyPadding = 64;

// Values of a row that sees `keys` keys, with the padding.
constexpr int64_t KeyRowWidth(int64_t keys, int32_t top_keys) {
  if (top_keys > 0) return top_keys;
  return (keys + kKeyPadding - 1) / kKeyPadding * kKeyPadding;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_
