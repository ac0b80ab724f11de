#include "engine/capture/capture_plan.h"

#include <algorithm>
#include <cstddef>

namespace headrace {
namespace {

bool SelectsInPhase(const PhaseRows& rows, int64_t position, int32_t token,
                    int64_t phase_begin, bool is_last) {
  if (rows.all && (position - phase_begin) % rows.stride == 0) return true;
  if (rows.last && is_last) return true;
  if (rows.positions.contains(position)) return true;
  if (rows.token_ids.contains(token)) return true;
  return std::any_of(rows.windows.begin(), rows.windows.end(),
                     [position](const PositionWindow& window) {
                       return position >= window.begin &&
                              position < window.end &&
                              (position - window.begin) % window.stride == 0;
                     });
}

}  // namespace

bool RowSelection::Selects(int64_t position, int32_t token,
                           int64_t prompt_length) const {
  if (exclude_positions.contains(position) ||
      exclude_token_ids.contains(token)) {
    return false;
  }
  if (position < prompt_length) {
    return SelectsInPhase(prompt, position, token, 0,
                          position == prompt_length - 1);
  }
  return SelectsInPhase(generated, position, token, prompt_length, false);
}

std::optional<int64_t> RowSelection::FirstPromptRow(
    std::span<const int32_t> prompt_tokens) const {
  if (prompt.empty()) return std::nullopt;
  const int64_t length = static_cast<int64_t>(prompt_tokens.size());
  for (int64_t i = 0; i < length; ++i) {
    if (Selects(i, prompt_tokens[static_cast<size_t>(i)], length)) return i;
  }
  return std::nullopt;
}

bool CapturePlan::Wants(HookPoint hook, int32_t layer) const {
  return std::any_of(hooks.begin(), hooks.end(),
                     [&](const HookSelection& selection) {
                       return selection.Has(hook, layer);
                     });
}

void CaptureChecks::Merge(const CaptureChecks& other) {
  rows_checked += other.rows_checked;
  resid_mid_checked += other.resid_mid_checked;
  resid_mid_failed += other.resid_mid_failed;
  resid_post_checked += other.resid_post_checked;
  resid_post_failed += other.resid_post_failed;
  max_sum_relative_error =
      std::max(max_sum_relative_error, other.max_sum_relative_error);
}

}  // namespace headrace
