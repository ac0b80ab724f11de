#include "engine/capture/derived_spec.h"

namespace headrace {

DerivedShape ShapeOf(const DerivedSpec& spec,
                     const DerivedDimensions& dimensions) {
  const auto tokens = static_cast<int64_t>(spec.token_ids.size());
  switch (spec.kind) {
    case DerivedKind::kNorm:
    case DerivedKind::kCosine:
      return {.values = 1};
    case DerivedKind::kMean:
      return {.values = spec.width};
    case DerivedKind::kProjection:
      return {.values = static_cast<int64_t>(spec.vectors.size())};
    case DerivedKind::kLogitLens:
      return {.values = spec.top_k + 2 * tokens, .ids = spec.top_k};
    case DerivedKind::kAttribution: {
      const int64_t per_layer = (spec.by_head ? dimensions.num_heads : 1) + 1;
      return {.values = tokens * (1 + dimensions.num_layers * per_layer + 2)};
    }
  }
  return {};
}

}  // namespace headrace
