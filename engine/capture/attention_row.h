// One row of kAttnScores or kAttnProbs: what a query position makes of the keys
// it sees, in one head.
#ifndef HEADRACE_ENGINE_CAPTURE_ATTENTION_ROW_H_
#define HEADRACE_ENGINE_CAPTURE_ATTENTION_ROW_H_

#include <cstdint>
#include <vector>

#include "engine/capture/hook_selection.h"
#include "engine/model/hook_point.h"
#include "engine/model/step_observer.h"

namespace headrace {

struct AttentionRow {
  // By key in order of position, or the largest, largest first; then padding:
  // -infinity for scores, 0 for probabilities.
  std::vector<float> values;
  std::vector<int32_t> key_positions;  // one per value, with top_keys alone
  int64_t key_start = 0;
  int64_t key_count = 0;  // values before the padding
};

// Probabilities are exp(s - max) in float32, divided by their sum in float64.
// Equal values keep the order of their keys.
AttentionRow MakeAttentionRow(HookPoint hook, const AttentionView& view,
                              int32_t step_row, int32_t head, int32_t top_keys);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_ATTENTION_ROW_H_
