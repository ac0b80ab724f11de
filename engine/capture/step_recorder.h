// Watches one step for the sequences that want rows of it or change them: edits
// each one's own rows and hands them over.
#ifndef HEADRACE_ENGINE_CAPTURE_STEP_RECORDER_H_
#define HEADRACE_ENGINE_CAPTURE_STEP_RECORDER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "engine/capture/capture_checks.h"
#include "engine/capture/capture_plan.h"
#include "engine/capture/derived_quantity.h"
#include "engine/capture/intervention.h"
#include "engine/model/step_observer.h"

namespace headrace {

// The rows of one sequence in a step: tokens[i] stands at first_position + i,
// in row first_row + i of the step.
struct RecordedSlice {
  const CapturePlan* plan;
  CaptureSink* sink;  // may be null with checks alone
  // One per plan->derived.
  std::span<const std::unique_ptr<DerivedQuantity>> derived;
  CaptureChecks* checks;                        // added to
  std::span<const Intervention> interventions;  // in order
  std::span<int64_t> applied;  // rows changed, by intervention: added to
  int64_t first_row;
  int64_t first_position;
  // Rows at positions before this were handed over in an earlier step: they are
  // edited again, and neither handed over nor counted.
  int64_t reported_rows = 0;
  // The last so many rows are of guessed tokens: what they give is kept until
  // Settle() says how many were right.
  int64_t draft_rows = 0;
  int64_t prompt_length;
  std::span<const int32_t> tokens;  // read by AddSlice() alone
};

// Owned by the batch loop; used for one step.
class StepRecorder final : public StepObserver {
 public:
  // `last_layer`: where the sum of all writes is compared.
  explicit StepRecorder(int32_t last_layer) : last_layer_(last_layer) {}

  // Slices that select and change no row are dropped here.
  void AddSlice(const RecordedSlice& slice);
  bool empty() const { return slices_.empty(); }

  // Rows of the step, ascending, for which some slice wants one of `hooks`,
  // which have no layer.
  std::vector<int32_t> RowsWanting(
      std::initializer_list<HookPoint> hooks) const;

  // Of the slice at `first_row`, `num_rows` rows hold; the drafts after them
  // were never there. Called once for a slice with drafts, after all OnRows().
  void Settle(int64_t first_row, int64_t num_rows);

  bool Wants(HookPoint hook, int32_t layer) const override;
  void OnRows(const HookRows& rows) override;
  void OnAttention(int32_t layer, const AttentionView& view) override;

 private:
  struct SelectedRow {
    int32_t step_row;
    int64_t position;
    int32_t token;
    Phase phase;
    RowCheck check;
    CaptureChecks draft_checks;  // of a draft, until it is settled
  };
  // A row that a draft gave.
  struct KeptRow {
    int32_t step_row;
    CapturedRow row;  // but for its spans
    std::vector<float> values;
    std::vector<int32_t> ids;
  };
  struct KeptEdit {
    int32_t step_row;
    size_t intervention;
  };
  struct Slice {
    RecordedSlice slice;
    std::vector<SelectedRow> rows;             // ascending
    std::vector<std::vector<int32_t>> edited;  // step rows, by intervention
    int32_t first_draft = 0;                   // the first step row of a draft
    std::vector<KeptRow> kept_rows;
    std::vector<KeptEdit> kept_edits;

    bool IsNew(int32_t step_row) const {
      return slice.first_position + step_row - slice.first_row >=
             slice.reported_rows;
    }

    bool Reads(HookPoint hook, int32_t layer) const;
  };
  // The steps of OnRows for one slice.
  void Check(Slice& slice, const HookRows& rows) const;
  static bool Edit(Slice& slice, const HookRows& rows);
  static void Recheck(Slice& slice, const HookRows& rows);
  static void Deliver(Slice& slice, const HookRows& rows);
  static void DeliverHead(Slice& slice, const HookSelection& selection,
                          LayerHead at, const AttentionView& view);
  static void Derive(Slice& slice, const HookRows& rows);
  // To the sink, or to what is kept of a draft.
  static void HandOver(Slice& slice, int32_t step_row, const CapturedRow& row);

  int32_t last_layer_;
  std::vector<Slice> slices_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_STEP_RECORDER_H_
