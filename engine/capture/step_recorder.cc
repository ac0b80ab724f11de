#include "engine/capture/step_recorder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace headrace {

void StepRecorder::AddSlice(const RecordedSlice& slice) {
  if (slice.plan->empty()) return;
  Slice entry{.slice = slice, .rows = {}};
  for (size_t i = 0; i < slice.tokens.size(); ++i) {
    const int64_t position = slice.first_position + static_cast<int64_t>(i);
    const int32_t token = slice.tokens[i];
    if (!slice.plan->rows.Selects(position, token, slice.prompt_length)) {
      continue;
    }
    entry.rows.push_back(
        {.step_row =
             static_cast<int32_t>(slice.first_row) + static_cast<int32_t>(i),
         .position = position,
         .token = token,
         .phase = position < slice.prompt_length ? Phase::kPrompt
                                                 : Phase::kGenerated,
         .check = {}});
  }
  if (!entry.rows.empty()) slices_.push_back(std::move(entry));
}

std::vector<int32_t> StepRecorder::RowsWanting(
    std::initializer_list<HookPoint> hooks) const {
  std::vector<int32_t> wanted;
  for (const Slice& slice : slices_) {
    if (std::none_of(hooks.begin(), hooks.end(), [&](HookPoint hook) {
          return slice.slice.plan->Wants(hook, -1);
        })) {
      continue;
    }
    for (const SelectedRow& row : slice.rows) wanted.push_back(row.step_row);
  }
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

bool StepRecorder::Wants(HookPoint hook, int32_t layer) const {
  return std::any_of(slices_.begin(), slices_.end(), [&](const Slice& slice) {
    return slice.slice.plan->Wants(hook, layer);
  });
}

void StepRecorder::OnRows(const HookRows& rows) {
  for (Slice& slice : slices_) Take(slice, rows);
}

void StepRecorder::Take(Slice& slice, const HookRows& rows) {
  const bool wanted = slice.slice.sink != nullptr &&
                      slice.slice.plan->Wants(rows.hook, rows.layer);
  if (!wanted && !slice.slice.plan->checks) return;
  for (SelectedRow& row : slice.rows) {
    int64_t index = row.step_row;
    if (!rows.step_rows.empty()) {
      const auto found = std::lower_bound(rows.step_rows.begin(),
                                          rows.step_rows.end(), row.step_row);
      if (found == rows.step_rows.end() || *found != row.step_row) continue;
      index = found - rows.step_rows.begin();
    }
    const std::span<const float> values = rows.row(index);
    if (slice.slice.plan->checks) {
      row.check.OnRow(rows.hook, rows.layer, values, last_layer_,
                      *slice.slice.checks);
    }
    if (wanted) {
      slice.slice.sink->OnRow({.hook = rows.hook,
                               .layer = rows.layer,
                               .phase = row.phase,
                               .position = row.position,
                               .token = row.token,
                               .values = values});
    }
  }
}

}  // namespace headrace
