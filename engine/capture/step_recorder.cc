#include "engine/capture/step_recorder.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/capture/attention_row.h"

namespace headrace {

namespace {

// Where row `step_row` of the step is in `rows`; -1 where it is not.
int64_t IndexOf(const HookRows& rows, int32_t step_row) {
  if (rows.step_rows.empty()) return step_row;
  const auto found =
      std::lower_bound(rows.step_rows.begin(), rows.step_rows.end(), step_row);
  if (found == rows.step_rows.end() || *found != step_row) return -1;
  return found - rows.step_rows.begin();
}

}  // namespace

void StepRecorder::AddSlice(const RecordedSlice& slice) {
  if (slice.plan->empty() && slice.interventions.empty()) return;
  Slice entry{.slice = slice, .rows = {}, .edited = {}};
  entry.edited.resize(slice.interventions.size());
  entry.first_draft = static_cast<int32_t>(
      slice.first_row + static_cast<int64_t>(slice.tokens.size()) -
      slice.draft_rows);
  bool edits = false;
  for (size_t i = 0; i < slice.tokens.size(); ++i) {
    const int64_t position = slice.first_position + static_cast<int64_t>(i);
    const int32_t token = slice.tokens[i];
    const int32_t step_row =
        static_cast<int32_t>(slice.first_row) + static_cast<int32_t>(i);
    for (size_t k = 0; k < slice.interventions.size(); ++k) {
      if (slice.interventions[k].rows.Selects(position, token,
                                              slice.prompt_length)) {
        entry.edited[k].push_back(step_row);
        edits = true;
      }
    }
    if (position < slice.reported_rows || slice.plan->empty() ||
        !slice.plan->rows.Selects(position, token, slice.prompt_length)) {
      continue;
    }
    entry.rows.push_back({.step_row = step_row,
                          .position = position,
                          .token = token,
                          .phase = position < slice.prompt_length
                                       ? Phase::kPrompt
                                       : Phase::kGenerated,
                          .check = {},
                          .draft_checks = {}});
  }
  if (edits || !entry.rows.empty()) slices_.push_back(std::move(entry));
}

std::vector<int32_t> StepRecorder::RowsWanting(
    std::initializer_list<HookPoint> hooks) const {
  std::vector<int32_t> wanted;
  for (const Slice& slice : slices_) {
    if (std::none_of(hooks.begin(), hooks.end(),
                     [&](HookPoint hook) { return slice.Reads(hook, -1); })) {
      continue;
    }
    for (const SelectedRow& row : slice.rows) wanted.push_back(row.step_row);
  }
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

bool StepRecorder::Wants(HookPoint hook, int32_t layer) const {
  return std::any_of(slices_.begin(), slices_.end(), [&](const Slice& slice) {
    return slice.Reads(hook, layer) ||
           (slice.slice.plan->checks && RowCheck::Reads(hook)) ||
           std::any_of(slice.slice.interventions.begin(),
                       slice.slice.interventions.end(),
                       [&](const Intervention& intervention) {
                         return intervention.where.Has(hook, layer);
                       });
  });
}

void StepRecorder::OnRows(const HookRows& rows) {
  for (Slice& slice : slices_) {
    const bool before = slice.slice.plan->before_interventions;
    Check(slice, rows);
    if (before) Deliver(slice, rows);
    if (Edit(slice, rows)) Recheck(slice, rows);
    if (!before) Deliver(slice, rows);
    Derive(slice, rows);
  }
}

void StepRecorder::Check(Slice& slice, const HookRows& rows) const {
  if (!slice.slice.plan->checks) return;
  for (SelectedRow& row : slice.rows) {
    const int64_t index = IndexOf(rows, row.step_row);
    if (index < 0) continue;
    row.check.OnRow(rows.hook, rows.layer, rows.row(index), last_layer_,
                    row.step_row < slice.first_draft ? *slice.slice.checks
                                                     : row.draft_checks);
  }
}

bool StepRecorder::Edit(Slice& slice, const HookRows& rows) {
  bool edited = false;
  for (size_t k = 0; k < slice.slice.interventions.size(); ++k) {
    const Intervention& intervention = slice.slice.interventions[k];
    if (!intervention.where.Has(rows.hook, rows.layer)) continue;
    for (const int32_t step_row : slice.edited[k]) {
      const int64_t index = IndexOf(rows, step_row);
      if (index < 0) continue;
      const std::span<float> row = rows.writable_row(index);
      const std::span<const float> vector =
          RowFor(intervention, rows.layer,
                 slice.slice.first_position + step_row - slice.slice.first_row);
      if (intervention.from.has_value() && vector.size() != row.size()) {
        continue;
      }
      Apply(intervention, vector, row);
      if (step_row >= slice.first_draft) {
        slice.kept_edits.push_back({step_row, k});
      } else if (slice.IsNew(step_row)) {
        ++slice.slice.applied[k];
      }
      edited = true;
    }
  }
  return edited;
}

void StepRecorder::Recheck(Slice& slice, const HookRows& rows) {
  if (!slice.slice.plan->checks) return;
  for (SelectedRow& row : slice.rows) {
    const int64_t index = IndexOf(rows, row.step_row);
    if (index >= 0) row.check.OnEdit(rows.hook, rows.row(index));
  }
}

void StepRecorder::HandOver(Slice& slice, int32_t step_row,
                            const CapturedRow& row) {
  if (step_row < slice.first_draft) {
    slice.slice.sink->OnRow(row);
    return;
  }
  slice.kept_rows.push_back({.step_row = step_row,
                             .row = row,
                             .values = {row.values.begin(), row.values.end()},
                             .ids = {row.ids.begin(), row.ids.end()}});
}

void StepRecorder::Settle(int64_t first_row, int64_t num_rows) {
  const auto slice = std::find_if(
      slices_.begin(), slices_.end(),
      [&](const Slice& s) { return s.slice.first_row == first_row; });
  if (slice == slices_.end()) return;
  const int64_t end = first_row + num_rows;
  for (KeptRow& kept : slice->kept_rows) {
    if (kept.step_row >= end) continue;
    kept.row.values = kept.values;
    kept.row.ids = kept.ids;
    slice->slice.sink->OnRow(kept.row);
  }
  for (const KeptEdit& edit : slice->kept_edits) {
    if (edit.step_row < end) ++slice->slice.applied[edit.intervention];
  }
  if (!slice->slice.plan->checks) return;
  for (const SelectedRow& row : slice->rows) {
    if (row.step_row < slice->first_draft || row.step_row >= end) continue;
    slice->slice.checks->Merge(row.draft_checks);
  }
}

void StepRecorder::Deliver(Slice& slice, const HookRows& rows) {
  if (slice.slice.sink == nullptr ||
      !slice.slice.plan->Wants(rows.hook, rows.layer)) {
    return;
  }
  for (const SelectedRow& row : slice.rows) {
    const int64_t index = IndexOf(rows, row.step_row);
    if (index < 0) continue;
    HandOver(slice, row.step_row,
             {.hook = rows.hook,
              .layer = rows.layer,
              .phase = row.phase,
              .position = row.position,
              .token = row.token,
              .values = rows.row(index)});
  }
}

void StepRecorder::OnAttention(int32_t layer, const AttentionView& view) {
  for (Slice& slice : slices_) {
    for (const HookSelection& selection : slice.slice.plan->hooks) {
      for (const LayerHead& at : selection.heads) {
        if (at.layer == layer) DeliverHead(slice, selection, at, view);
      }
    }
  }
}

void StepRecorder::DeliverHead(Slice& slice, const HookSelection& selection,
                               LayerHead at, const AttentionView& view) {
  // Made together, as many as fit beside the caches; handed over in order.
  constexpr size_t kTogether = 64;
  std::vector<AttentionRow> made(std::min(kTogether, slice.rows.size()));
  for (size_t begin = 0; begin < slice.rows.size(); begin += kTogether) {
    const std::span<const SelectedRow> rows =
        std::span(slice.rows)
            .subspan(begin, std::min(kTogether, slice.rows.size() - begin));
    view.ForEach(static_cast<int64_t>(rows.size()), [&](int64_t i) {
      const auto index = static_cast<size_t>(i);
      made[index] = MakeAttentionRow(selection.hook, view, rows[index].step_row,
                                     at.head, selection.top_keys);
    });
    for (size_t i = 0; i < rows.size(); ++i) {
      HandOver(slice, rows[i].step_row,
               {.hook = selection.hook,
                .layer = at.layer,
                .head = at.head,
                .phase = rows[i].phase,
                .position = rows[i].position,
                .token = rows[i].token,
                .values = made[i].values,
                .ids = made[i].key_positions,
                .key_start = made[i].key_start,
                .key_count = made[i].key_count});
    }
  }
}

bool StepRecorder::Slice::Reads(HookPoint hook, int32_t layer) const {
  return slice.plan->Wants(hook, layer) ||
         std::any_of(slice.derived.begin(), slice.derived.end(),
                     [&](const std::unique_ptr<DerivedQuantity>& quantity) {
                       return quantity->Reads(hook, layer);
                     });
}

void StepRecorder::Derive(Slice& slice, const HookRows& rows) {
  for (size_t k = 0; k < slice.slice.derived.size(); ++k) {
    DerivedQuantity& quantity = *slice.slice.derived[k];
    if (!quantity.Reads(rows.hook, rows.layer)) continue;
    std::vector<SelectedRows::Row> selected;
    for (size_t i = 0; i < slice.rows.size(); ++i) {
      const int64_t index = IndexOf(rows, slice.rows[i].step_row);
      if (index < 0) continue;
      selected.push_back({.index = i,
                          .phase = slice.rows[i].phase,
                          .position = slice.rows[i].position,
                          .token = slice.rows[i].token,
                          .values = rows.row(index)});
    }
    quantity.OnRows({rows.hook, rows.layer, selected},
                    [&](const DerivedRow& derived) {
                      const SelectedRow& row = slice.rows[derived.index];
                      HandOver(slice, row.step_row,
                               {.derived = static_cast<int32_t>(k),
                                .hook = derived.hook,
                                .layer = derived.layer,
                                .phase = row.phase,
                                .position = row.position,
                                .token = row.token,
                                .values = derived.values,
                                .ids = derived.ids});
                    });
  }
}

}  // namespace headrace
