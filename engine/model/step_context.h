// What every part of a pass shares: the rows of the step, where their keys and
// values are, and the memory that sublayers work in.
#ifndef HEADRACE_ENGINE_MODEL_STEP_CONTEXT_H_
#define HEADRACE_ENGINE_MODEL_STEP_CONTEXT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/kv_cache/paged_kv_storage.h"
#include "engine/model/hook_point.h"
#include "engine/model/model_config.h"
#include "engine/model/step_observer.h"
#include "engine/ops/attention.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/quantized_rows.h"
#include "engine/position/rotary_rows.h"
#include "engine/rope/rope_params.h"

namespace headrace {

// The rows of one sequence: tokens first_position, first_position + 1, … in
// rows first_row, first_row + 1, … of the step.
struct StepSequence {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;
  std::span<const int32_t> block_table;
  const EffectiveRope* rope = nullptr;  // null: the model has none
};

// A ragged batch of rows.
struct StepRows {
  std::span<const int32_t> tokens;  // [num_rows]
  std::span<const StepSequence> sequences;
  // Those that are read after the last block, ascending: without an observer it
  // computes no other rows.
  std::span<const int32_t> outputs;
  StepObserver* observer = nullptr;  // null: nobody watches

  int64_t num_rows() const { return static_cast<int64_t>(tokens.size()); }
};

// Memory of a pass, allocated once for the largest step.
struct StepBuffers {
  StepBuffers(const ModelConfig& config, int64_t max_rows);

  AlignedBuffer<float> normed;   // [max_rows, hidden_size]
  AlignedBuffer<float> qkv;      // [max_rows, (heads + 2 kv_heads) * head_dim]
  AlignedBuffer<float> z;        // [max_rows, heads * head_dim]
  AlignedBuffer<float> gate_up;  // [max_rows, 2 * intermediate_size]
  AlignedBuffer<float> act;      // [max_rows, intermediate_size]
  QuantizedRows quantized_act;   // the same, where nobody watches
  AlignedBuffer<float> write;    // [max_rows, hidden_size]
  AlignedBuffer<float> scale;    // [max_rows], of the norm
  // [max_rows, heads * head_dim], rows made only to be shown
  AlignedBuffer<float> shown;
  RotaryRows rotary;
};

// Owned by the batch loop.
struct StepContext {
  OpsContext& ops;
  PagedKvStorage& kv;
  AttentionScratch& attention;
  StepBuffers& buffers;
  const StepRows& rows;

  bool Wanted(HookPoint hook, int32_t layer) const {
    return rows.observer != nullptr && rows.observer->Wants(hook, layer);
  }
  // Shows [num_rows, width] rows, `stride` floats apart, to the observer, if
  // there is one. It may change them before the pass goes on.
  void Tap(HookPoint hook, int32_t layer, float* data, int64_t width,
           int64_t stride) const {
    if (rows.observer == nullptr) return;
    rows.observer->OnRows({.hook = hook,
                           .layer = layer,
                           .data = data,
                           .writable = data,
                           .width = width,
                           .stride = stride,
                           .step_rows = {},
                           .num_rows = rows.num_rows()});
  }
  void Tap(HookPoint hook, int32_t layer, float* data, int64_t width) const {
    Tap(hook, layer, data, width, width);
  }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_STEP_CONTEXT_H_
