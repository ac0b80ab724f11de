// What the batch loop tells about itself: a snapshot, and a record of each
// request that ended. For metrics, health and tests.
#ifndef HEADRACE_SERVER_BATCHING_BATCH_STATS_H_
#define HEADRACE_SERVER_BATCHING_BATCH_STATS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/batching/events.h"

namespace headrace {

struct BatchStats {
  // Now.
  int64_t queued_requests = 0;   // accepted, nothing of them admitted
  int64_t running_requests = 0;  // at least one choice was admitted
  int64_t running_sequences = 0;
  int64_t paused_sequences = 0;     // wait for their reader
  int64_t suspended_sequences = 0;  // gave way to a higher priority
  int64_t ring_bytes = 0;           // captured rows that wait for readers
  KvCacheStats kv_cache;
  // Since the start.
  int64_t steps = 0;
  int64_t prompt_tokens_computed = 0;
  int64_t generated_tokens = 0;
  int64_t captured_rows = 0;
  int64_t dropped_rows = 0;
  int64_t drafted_tokens = 0;   // guessed and tried
  int64_t accepted_tokens = 0;  // of them, those that came
  int64_t suspensions = 0;
  int64_t recomputed_rows = 0;    // after suspensions
  int64_t rejected_requests = 0;  // queue full or draining
  absl::Duration stalled;         // sequences paused by their readers
};

struct RequestRecord {
  absl::StatusCode code = absl::StatusCode::kOk;
  RequestTimings timings;
  absl::Duration total;  // from submission to the end
  // From submission; InfiniteDuration when no token was generated.
  absl::Duration time_to_first_token = absl::InfiniteDuration();
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_BATCH_STATS_H_
