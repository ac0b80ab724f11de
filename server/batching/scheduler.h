// What to admit and what to run next: pure functions of a snapshot. No thread,
// no clock, no engine; the batch loop gathers the state and obeys.
//
// The promises made here:
//  - A choice is admitted only when KV blocks for its whole life are free, so
//    a running sequence never lacks memory and is never preempted.
//  - Waiting choices go by priority, then first come first served; a large one
//    is never overtaken by smaller ones behind it.
//  - Every running sequence that has a token to feed is in every step, and the
//    prompt rows beside it are few enough that the step stays within
//    `max_decode_stall`.
//  - A sequence whose reader has no room for what the step would send is not
//    run (or loses rows, or ends, as its policy says); others do not notice.
#ifndef HEADRACE_SERVER_BATCHING_SCHEDULER_H_
#define HEADRACE_SERVER_BATCHING_SCHEDULER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "engine/batch.h"
#include "server/batching/capture_layout.h"

namespace headrace {

struct SchedulerLimits {
  int64_t max_batch_rows = 512;
  int64_t max_num_seqs = 64;  // <= max_batch_rows
  // How long a step may take because of prompt rows while others decode.
  absl::Duration max_decode_stall = absl::Milliseconds(200);
  // Captured rows that may wait for all readers together. One request is
  // admitted whatever its ring takes.
  int64_t max_ring_bytes = int64_t{512} << 20;
};

// --- Admission.

struct WaitingChoice {
  SequenceId id{};         // the decision's name for it
  int32_t priority = 0;    // higher first
  uint64_t order = 0;      // of arrival
  int64_t blocks = 0;      // KV blocks for its whole life
  int64_t ring_bytes = 0;  // of its reader; 0 when it has that already
};

struct AdmissionState {
  int64_t free_blocks = 0;
  int64_t running = 0;
  int64_t ring_bytes = 0;  // reserved for, or held by, readers
  std::vector<WaitingChoice> waiting;
};

// Choices to open now, in order. One that waits for room in the rings is
// overtaken only by those that need none.
std::vector<SequenceId> DecideAdmission(const AdmissionState& state,
                                        const SchedulerLimits& limits);

// --- One step.

// What one request's reader can still take, shared by its choices.
struct ReaderState {
  SlowReaderPolicy policy = SlowReaderPolicy::kPauseSequence;
  int64_t token_room = 0;  // events
  int64_t token_capacity = 0;
  int64_t ring_room = 0;  // bytes, as CaptureLayout counts them
  int64_t ring_capacity = 0;
};

struct RunningChoice {
  SequenceId id{};
  int32_t priority = 0;
  uint64_t order = 0;
  size_t reader = 0;  // index into StepState::readers
  // Prompt rows that are not computed yet; 0: one token is to be fed.
  int64_t prompt_rows = 0;
  // What a captured position costs in the ring.
  int64_t ring_cost = 0;
  // captured_rows[i] - captured_rows[0]: captured among the first i of those
  // prompt rows. Size prompt_rows + 1, or empty when none is.
  std::span<const int32_t> captured_rows;
  bool captures_token = false;  // the row of the token to be fed
  // Prompt rows send an event each (their log probabilities).
  bool prompt_events = false;
};

struct StepState {
  std::vector<RunningChoice> running;
  std::vector<ReaderState> readers;
  // Measured time of a prompt row in a mixed step; zero when unknown.
  absl::Duration time_per_row;
};

struct StepDecision {
  struct Slice {
    SequenceId id{};
    int64_t num_rows = 0;
    bool drop_rows = false;  // leave this step's captured rows out
  };
  std::vector<Slice> slices;
  std::vector<SequenceId> paused;   // wait for their reader
  std::vector<SequenceId> overrun;  // to be ended: SlowReaderPolicy::kCancel
};

StepDecision DecideStep(const StepState& state, const SchedulerLimits& limits);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_SCHEDULER_H_
