// How a step is watched and changed: the decoder shows rows where they are
// born, and the observer takes what it wants and edits what it may. The only
// door between a pass and those outside.
#ifndef HEADRACE_ENGINE_MODEL_STEP_OBSERVER_H_
#define HEADRACE_ENGINE_MODEL_STEP_OBSERVER_H_

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "engine/model/hook_point.h"

namespace headrace {

// Rows of one hook and layer. Valid only during the call that shows them.
struct HookRows {
  HookPoint hook;
  int32_t layer;  // -1 where the hook has none
  const float* data;
  float* writable;  // `data`, where rows may be changed; else null
  int64_t width;    // values per row
  int64_t stride;   // floats from row to row
  // Row i of `data` is row step_rows[i] of the step; empty: row i is i.
  std::span<const int32_t> step_rows;
  int64_t num_rows;

  std::span<const float> row(int64_t i) const {
    return {data + i * stride, static_cast<size_t>(width)};
  }
  std::span<float> writable_row(int64_t i) const {
    return {writable + i * stride, static_cast<size_t>(width)};
  }
};

// What one layer's attention computes between queries and keys: too much to be
// made unless it is asked for. Valid only during the call that shows it.
class AttentionView {
 public:
  virtual ~AttentionView() = default;
  // The keys that a row of the step sees, its own the last of them.
  struct Keys {
    int64_t first;  // position
    int64_t count;
  };
  virtual Keys KeysOf(int32_t step_row) const = 0;
  // Of a query head: scale * q . k for each of these keys, before the softmax.
  //
  //   dst: [KeysOf(step_row).count]
  virtual void Scores(int32_t step_row, int32_t head,
                      std::span<float> dst) const = 0;
  // Calls work(i) for every i below `count`, on the step's threads.
  virtual void ForEach(int64_t count,
                       absl::FunctionRef<void(int64_t)> work) const = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Whether rows of this hook and layer are selected or edited: spares the work
  // of making rows that only an observer needs.
  virtual bool Wants(HookPoint hook, int32_t layer) const = 0;
  virtual void OnRows(const HookRows& rows) = 0;
  // In place of OnRows() for kAttnScores and kAttnProbs.
  virtual void OnAttention(int32_t layer, const AttentionView& view) = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_STEP_OBSERVER_H_
