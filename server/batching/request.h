// A resolved request: nothing left to default, check or look up. What the
// conversion of an RPC makes and the batch loop runs.
#ifndef HEADRACE_SERVER_BATCHING_REQUEST_H_
#define HEADRACE_SERVER_BATCHING_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/batch.h"
#include "server/batching/capture_layout.h"
#include "server/batching/stream_cursor.h"
#include "server/vectors/row_keeper.h"

namespace headrace {

// When a choice ends, beside the end tokens in SequenceOptions.
struct StopRules {
  int64_t max_tokens = 0;
  // max_tokens is what the context leaves, not what the client asked for:
  // reaching it is CONTEXT_FULL.
  bool limited_by_context = false;
  std::vector<std::string> stop_strings;  // none is empty
  bool include_stop_string = false;
  std::optional<absl::Duration> time_limit;  // from the first step on
};

struct Request {
  // Of choice 0. The other choices have the same, without prompt rows and
  // prompt log probabilities: those come once.
  SequenceOptions sequence;
  int32_t num_choices = 1;
  StopRules stop;
  bool skip_special_tokens = true;
  CaptureDelivery delivery;
  CaptureLayout layout;  // of what is sent of sequence.capture
  // Takes the rows of hooks, and sends them only if told to; may be null.
  // Shared with the copies of a request, none of which runs.
  std::shared_ptr<RowKeeper> keeper;
  bool sends_kept = false;
  StreamCursor resume;   // what the reader has already
  int32_t priority = 0;  // higher runs first
  // Who asks, as far as anybody knows: tenants of equal priority are served
  // fairly. All that say nothing are one tenant.
  std::string tenant;
  absl::Time deadline = absl::InfiniteFuture();
};

// Errors: RESOURCE_EXHAUSTED when the request can never run in a KV cache of so
// many positions.
absl::Status CheckFitsKvCache(const Request& request, int64_t kv_cache_rows);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_REQUEST_H_
