// The scores of single rows, for those who look at attention: computed when
// asked for, from the cache, as Attention() computes its own.
#ifndef HEADRACE_ENGINE_OPS_ATTENTION_SCORES_H_
#define HEADRACE_ENGINE_OPS_ATTENTION_SCORES_H_

#include <cstdint>

#include "engine/ops/attention.h"

namespace headrace {

// The keys that a position sees, itself the last of them.
struct VisibleKeys {
  int64_t first = 0;  // position
  int64_t count = 0;
};
VisibleKeys KeysOf(const AttentionInputs& inputs, int64_t position);

// scale * q . k of row `row` of `sequence` and query head `head`, for each key
// that it sees, in order of position.
//
//   dst: [KeysOf(inputs, position).count]
//
// Equal, in every bit, to the scores that Attention() exponentiates.
void AttentionScores(const AttentionInputs& inputs,
                     const AttentionSequence& sequence, int64_t row,
                     int64_t head, float* dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ATTENTION_SCORES_H_
