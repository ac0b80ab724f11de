// One hook and some of its layers, resolved.
#ifndef HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_
#define HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/model/hook_point.h"

namespace headrace {

struct HookSelection {
  HookPoint hook;
  std::vector<int32_t> layers;  // ascending; {-1} for hooks without a layer

  bool Has(HookPoint point, int32_t layer) const {
    return hook == point &&
           std::binary_search(layers.begin(), layers.end(), layer);
  }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_HOOK_SELECTION_H_
