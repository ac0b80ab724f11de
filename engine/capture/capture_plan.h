// Which rows of which hooks a sequence wants, resolved: no names, no negative
// indices, nothing left to default. And the sink that takes them.
#ifndef HEADRACE_ENGINE_CAPTURE_CAPTURE_PLAN_H_
#define HEADRACE_ENGINE_CAPTURE_CAPTURE_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "engine/capture/derived_spec.h"
#include "engine/capture/hook_selection.h"
#include "engine/capture/phase.h"
#include "engine/model/hook_point.h"

namespace headrace {

// Half-open range of absolute positions, every `stride`-th counted from begin.
struct PositionWindow {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 1;
};

// Rows of one phase: the union of what is listed. Positions are absolute over
// prompt and generated.
struct PhaseRows {
  bool all = false;
  int64_t stride = 1;  // thins `all`: every stride-th position of the phase
  bool last = false;   // kPrompt: the last prompt row; unused for kGenerated
  absl::flat_hash_set<int64_t> positions;
  std::vector<PositionWindow> windows;
  absl::flat_hash_set<int32_t> token_ids;

  bool empty() const {
    return !all && !last && positions.empty() && windows.empty() &&
           token_ids.empty();
  }
};

struct RowSelection {
  PhaseRows prompt;
  PhaseRows generated;
  // Taken away again, of both phases.
  absl::flat_hash_set<int64_t> exclude_positions;
  absl::flat_hash_set<int32_t> exclude_token_ids;

  // Is the row at `position`, holding `token`, selected?
  bool Selects(int64_t position, int32_t token, int64_t prompt_length) const;
  // The first prompt position that is selected; nullopt when none is.
  std::optional<int64_t> FirstPromptRow(std::span<const int32_t> prompt) const;
};

struct CapturePlan {
  std::vector<HookSelection> hooks;  // ascending by enum, each once
  std::vector<DerivedSpec> derived;
  RowSelection rows;
  // Verify the residual identities of every selected row (CaptureChecks).
  bool checks = false;
  // Rows are taken before the sequence's interventions change them, not after.
  bool before_interventions = false;
  // Selected prompt rows that the prefix cache has are not computed for the
  // plan's sake: they are missing.
  bool leaves_out_cached = false;

  bool empty() const { return hooks.empty() && derived.empty() && !checks; }
  bool Wants(HookPoint hook, int32_t layer) const;
  // Whether a quantity adds up rows of many steps: a guessed row could not be
  // taken back out.
  bool Averages() const {
    return std::any_of(derived.begin(), derived.end(),
                       [](const DerivedSpec& spec) {
                         return spec.kind == DerivedKind::kMean;
                       });
  }
};

// One row on its way out, of a hook or of a quantity derived from it. Spans
// live until OnRow returns.
struct CapturedRow {
  // Index into CapturePlan::derived; -1: the hook's own row.
  int32_t derived = -1;
  HookPoint hook;
  int32_t layer;      // -1 where the hook has none
  int32_t head = -1;  // of kAttnScores and kAttnProbs
  Phase phase;
  int64_t position;
  int32_t token;
  std::span<const float> values;
  // DerivedShape::ids; with HookSelection::top_keys, the position of each key.
  std::span<const int32_t> ids;
  // With a head: position of the first key that is seen, and how many of the
  // values are of keys; the rest is padding.
  int64_t key_start = 0;
  int64_t key_count = 0;
  int64_t rows_averaged = 0;  // of a mean
};

// Takes rows inside a step, in order of the pass: by hook, then head, then
// position.
// Must not block: the scheduler admits a row only when there is room for it.
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  virtual void OnRow(const CapturedRow& row) = 0;
};

// Float32 facts about the rows of a sequence, before any narrowing.
struct CaptureChecks {
  int64_t rows_checked = 0;
  // Rows x layers where each identity was evaluated, and where it failed.
  int64_t resid_mid_checked = 0;  // resid_pre + attn_out == resid_mid
  int64_t resid_mid_failed = 0;
  int64_t resid_post_checked = 0;  // resid_mid + mlp_out == resid_post
  int64_t resid_post_failed = 0;
  // Largest, over rows, of |embed + sum of writes - final residual| (L2)
  // relative to |final residual|; the writes are summed in float64.
  double max_sum_relative_error = 0;

  // Adds the counts of `other` and keeps the larger error.
  void Merge(const CaptureChecks& other);
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_CAPTURE_PLAN_H_
