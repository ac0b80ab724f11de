// Where a reader stands in a stream: what it has of each kind of row, and of
// the tokens.
#ifndef HEADRACE_SERVER_BATCHING_STREAM_CURSOR_H_
#define HEADRACE_SERVER_BATCHING_STREAM_CURSOR_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/capture/capture_plan.h"

namespace headrace {

// Rows that come one after the other, in order of position.
struct RowKey {
  int32_t choice = 0;
  int32_t derived = -1;  // index into CapturePlan::derived; -1: the hook itself
  HookPoint hook = HookPoint::kEmbed;
  int32_t layer = -1;
  int32_t head = -1;

  bool operator==(const RowKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const RowKey& k) {
    return H::combine(std::move(h), k.choice, k.derived, k.hook, k.layer,
                      k.head);
  }
};

struct StreamCursor {
  absl::flat_hash_map<RowKey, int64_t> rows;
  std::vector<int64_t> tokens;  // by choice; missing: 0
  int64_t prompt_logprobs = 0;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_STREAM_CURSOR_H_
