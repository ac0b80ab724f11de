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
  layout.rows_per_position = rows.num_rows();
  layout.width = shape.values;
  layout.row_bytes = WireRowBytes(WireDtype::kF32, shape.values) +
                     shape.ids * static_cast<int64_t>(sizeof(int32_t));
  return layout;
}

// Where a row's keys are: positions with top_keys; first and count always.
int64_t KeyBytes(const HookSelection& selection) {
  return (2 + selection.top_keys) * static_cast<int64_t>(sizeof(int32_t));
}

// Rows that come when a choice ends, not with their position.
bool IsTotal(const HookLayout& hook, const CapturePlan& plan) {
  return hook.derived >= 0 &&
         plan.derived[static_cast<size_t>(hook.derived)].kind ==
             DerivedKind::kMean;
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
  layout.compression = delivery.compression;
  for (const HookSelection& selection : plan.hooks) {
    HookLayout& hook = layout.hooks.emplace_back();
    hook.hook = selection.hook;
    hook.rows_per_position = selection.num_rows();
    const bool by_key = !selection.heads.empty();
    hook.dtype = by_key ? WireDtype::kF32 : delivery.dtype;
    hook.width = by_key ? selection.key_width : WidthOf(selection.hook, hooks);
    if (by_key) hook.num_widths = selection.key_width / kKeyPadding + 1;
    hook.row_bytes = WireRowBytes(hook.dtype, hook.width) +
                     (by_key ? KeyBytes(selection) : 0);
  }
  for (size_t i = 0; i < plan.derived.size(); ++i) {
    layout.hooks.push_back(LayoutOfDerived(i, plan.derived[i], dimensions));
  }
  for (const HookLayout& hook : layout.hooks) {
    if (IsTotal(hook, plan)) {
      // One row of each layer, of the prompt and of each choice.
      layout.end_bytes +=
          2 * hook.rows_per_position * (hook.row_bytes + kRowOverheadBytes);
      continue;
    }
    layout.rows_per_position += hook.rows_per_position;
    layout.bytes_per_position += hook.rows_per_position * hook.row_bytes;
  }
  if (layout.hooks.empty()) return layout;

  const int64_t keys = std::max<int64_t>(1, layout.rows_per_position);
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
