// What to admit and what to run next: pure functions of a snapshot. No thread,
// no clock, no engine; the batch loop gathers the state and obeys.
//
// The promises made here:
//  - A choice is admitted only when KV blocks for its whole life are free, so
//    a running sequence never lacks memory.
//  - A running choice is suspended only when that lets one of a higher priority
//    in, which lacks blocks or a place: the least important and youngest first,
//    no more of them than needed, and none when all together do not suffice.
//    It loses nothing but time: it goes on where it was, and waits for that as
//    the oldest of its tenant and priority.
//  - Waiting choices go by priority; among equals the tenant that has had least
//    goes first (ServiceCost: what it was served and what its running choices
//    reserve), and each tenant's choices go first come first served. So a
//    tenant that floods the queue does not starve another: of two that both
//    wait, the accounts never differ by more than one choice's cost when a
//    choice is admitted, and what a newcomer waits for does not depend on how
//    many requests others have queued.
//  - What is next is never overtaken because it is large.
//  - Prompt rows of a step are shared out in the same order, by what each
//    tenant was served, so a prompt does not wait for all prompts of another.
//  - A full queue makes room: a tenant that holds at least two places more than
//    the newcomer's gives up its newest, never one of a higher priority.
//  - Every running sequence that has a token to feed is in every step, and the
//    prompt rows beside it (rows computed again included) take no longer than
//    `max_decode_stall` at the measured cost of a row, so the time between two
//    tokens is at most that of the decode rows and `max_decode_stall`, however
//    long the prompts are and however many. Two limits of that: 16 prompt rows
//    are always allowed, and no more than those before a row was measured; and
//    a jump in the cost of a row (to a prompt far deeper in its context) is
//    known one step late, two when it more than doubles (StepCosts).
//  - Drafts ride along while few sequences decode, none waits for its prompt,
//    and the tokens they are likely to yield are worth the time that their rows
//    are known to take: the step's tokens per second must rise by a twentieth.
//  - A sequence whose reader has no room for what the step would send is not
//    run (or loses rows, or ends, as its policy says); others do not notice.
#ifndef HEADRACE_SERVER_BATCHING_SCHEDULER_H_
#define HEADRACE_SERVER_BATCHING_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/batch.h"
#include "server/batching/capture_layout.h"
#include "server/batching/step_costs.h"

namespace headrace {

struct SchedulerLimits {
  int64_t max_batch_rows = 512;
  int64_t max_num_seqs = 64;  // <= max_batch_rows
  // How long prompt rows may hold up the sequences that decode beside them.
  absl::Duration max_decode_stall = absl::Milliseconds(200);
  // Captured rows that may wait for all readers together. One request is
  // admitted whatever its ring takes.
  int64_t max_ring_bytes = int64_t{512} << 20;
  // Whether running choices may be suspended for those of a higher priority.
  // On: where nobody sets priorities nothing changes, and where somebody does,
  // waiting for a whole answer of less importance is what they asked not to.
  bool preemption = true;
};

// --- Tenants.

// What service costs a tenant, in rows of a prompt. Rows are known exactly and
// belong to one tenant alone; the other candidate, KV blocks times seconds,
// would charge a tenant for the time that its neighbours' rows take. A row that
// decodes costs more: it passes over the weights with few others, and holds
// its place and its blocks for a whole step.
inline constexpr int64_t kDecodeRowCost = 4;
inline int64_t ServiceCost(int64_t prompt_rows, int64_t tokens) {
  return prompt_rows + kDecodeRowCost * tokens;
}

// --- Admission.

struct WaitingChoice {
  SequenceId id{};         // the decision's name for it
  int32_t priority = 0;    // higher first
  uint64_t order = 0;      // of arrival
  size_t tenant = 0;       // index into AdmissionState::accounts
  int64_t cost = 0;        // ServiceCost of its whole life
  int64_t blocks = 0;      // KV blocks for its whole life
  int64_t ring_bytes = 0;  // of its reader; 0 when it has that already
};

// A running choice, as something that may be suspended.
struct AdmittedChoice {
  SequenceId id{};
  int32_t priority = 0;
  uint64_t order = 0;
  int64_t blocks = 0;  // those it gives back
};

struct AdmissionState {
  int64_t free_blocks = 0;
  int64_t running = 0;
  std::vector<AdmittedChoice> admitted;  // those that may be suspended
  int64_t ring_bytes = 0;                // reserved for, or held by, readers
  // By tenant: what it was served and what its running choices reserve.
  std::vector<int64_t> accounts = {0};
  std::vector<WaitingChoice> waiting;
};

struct AdmissionDecision {
  std::vector<SequenceId> admit;  // to open or resume now, in order
  // To suspend, so that the next choice fits: then decide anew.
  std::vector<SequenceId> suspend;
};

// A choice that waits for room in the rings is overtaken only by those that
// need none.
AdmissionDecision DecideAdmission(const AdmissionState& state,
                                  const SchedulerLimits& limits);

// --- A full queue.

struct QueuedRequest {
  uint64_t id = 0;  // ascending in order of arrival
  int32_t priority = 0;
  std::string tenant;
};

// The id of the request that makes room for one of `tenant` and `priority`;
// nullopt: the newcomer is refused.
std::optional<uint64_t> DecideDisplacement(
    std::span<const QueuedRequest> queued, const std::string& tenant,
    int32_t priority);

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
  size_t tenant = 0;  // index into StepState::accounts
  size_t reader = 0;  // index into StepState::readers
  // Rows to be computed again after a suspension, before all others: they send
  // nothing.
  int64_t replay_rows = 0;
  // Prompt rows that are not computed yet; 0: one token is to be fed.
  int64_t prompt_rows = 0;
  // What a captured position costs in the ring.
  int64_t ring_cost = 0;
  // captured_rows[i] - captured_rows[0]: captured among the first i of those
  // prompt rows. Size prompt_rows + 1, or empty when none is.
  std::span<const int32_t> captured_rows;
  bool captures_token = false;  // the row of the token to be fed
  // Tokens guessed to follow the one to be fed, and the probability that a
  // guess comes when those before it did. Each may be captured when
  // `captures_drafts`.
  int64_t drafts = 0;
  double draft_acceptance = 0;
  bool captures_drafts = false;
  // Prompt rows send an event each (their log probabilities).
  bool prompt_events = false;
};

// Drafts ride in steps of so many sequences at the most.
inline constexpr int64_t kMaxDraftingSequences = 8;

struct StepState {
  std::vector<RunningChoice> running;
  std::vector<ReaderState> readers;
  std::vector<int64_t> accounts = {0};  // by tenant: what it was served
  StepCosts costs;                      // measured
};

struct StepDecision {
  struct Slice {
    SequenceId id{};
    int64_t num_rows = 0;    // of a choice that decodes: all but one are drafts
    bool drop_rows = false;  // leave this step's captured rows out
  };
  std::vector<Slice> slices;
  std::vector<SequenceId> paused;   // wait for their reader
  std::vector<SequenceId> overrun;  // to be ended: SlowReaderPolicy::kCancel
};

StepDecision DecideStep(const StepState& state, const SchedulerLimits& limits);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_SCHEDULER_H_
