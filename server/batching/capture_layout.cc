#include "server/batching/capture_layout.h"

#include <algorithm>

#include "absl/log/check.h"

namespace headrace {

namespace {

// Finished chunks that the ring holds per hook and layer when it may be large.
constexpr int64_t kChunksPerKey = 4;

int64_t WidthOf(HookPoint hook, std::span<const HookPointState> hooks) {
  const auto state =
      std::find_if(hooks.begin(), hooks.end(),
                   [hook](const HookPointState& s) { return s.hook == hook; });
  CHECK(state != hooks.end()) << "a plan names a hook that the model lacks";
  return state->width;
}

// An attribution is one row per position, of the logits.
HookSelection RowsOf(const DerivedSpec& spec) {
  if (spec.kind == DerivedKind::kAttribution) {
    return {.hook = HookPoint::kLogits, .layers = {-1}};
  }
  return spec.where;
}

HookLayout LayoutOfDerived(size_t index, const DerivedSpec& spec,
                           const DerivedDimensions& dimensions) {
  const DerivedShape shape = ShapeOf(spec, dimensions);
  const HookSelection rows = RowsOf(spec);
  HookLayout layout{.derived = static_cast<int32_t>(index), .hook = rows.hook};
  layout.num_layers = static_cast<int64_t>(rows.layers.size());
  layout.width = shape.values;
  layout.row_bytes = WireRowBytes(WireDtype::kF32, shape.values) +
                     shape.ids * static_cast<int64_t>(sizeof(int32_t));
  return layout;
}

}  // namespace

const HookLayout& CaptureLayout::Get(int32_t derived, HookPoint hook) const {
  const auto layout =
      std::find_if(hooks.begin(), hooks.end(), [&](const HookLayout& h) {
        return h.derived == derived && h.hook == hook;
      });
  CHECK(layout != hooks.end()) << "a row of a hook that was not asked for";
  return *layout;
}

CaptureLayout MakeCaptureLayout(const CapturePlan& plan,
                                std::span<const HookPointState> hooks,
                                const DerivedDimensions& dimensions,
                                const CaptureDelivery& delivery,
                                int64_t max_ring_bytes) {
  CaptureLayout layout;
  for (const HookSelection& selection : plan.hooks) {
    HookLayout& hook = layout.hooks.emplace_back();
    hook.hook = selection.hook;
    hook.num_layers = static_cast<int64_t>(selection.layers.size());
    hook.dtype = delivery.dtype;
    hook.width = WidthOf(selection.hook, hooks);
    hook.row_bytes = WireRowBytes(delivery.dtype, hook.width);
  }
  for (size_t i = 0; i < plan.derived.size(); ++i) {
    layout.hooks.push_back(LayoutOfDerived(i, plan.derived[i], dimensions));
  }
  for (const HookLayout& hook : layout.hooks) {
    layout.rows_per_position += hook.num_layers;
    layout.bytes_per_position += hook.num_layers * hook.row_bytes;
  }
  if (layout.hooks.empty()) return layout;

  const int64_t keys = layout.rows_per_position;
  layout.ring_cost_per_position =
      layout.bytes_per_position + keys * kRowOverheadBytes;
  layout.ring_bytes = std::max(
      std::min(kChunksPerKey * keys * delivery.chunk_bytes, max_ring_bytes),
      2 * layout.ring_cost_per_position);
  for (HookLayout& hook : layout.hooks) {
    const int64_t by_chunk = delivery.chunk_bytes / hook.row_bytes;
    const int64_t by_ring =
        layout.ring_bytes / (2 * keys) / (hook.row_bytes + kRowOverheadBytes);
    hook.rows_per_chunk = std::max<int64_t>(1, std::min(by_chunk, by_ring));
  }
  return layout;
}

}  // namespace headrace
