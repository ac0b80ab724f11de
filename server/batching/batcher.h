// The requests that are queued or running, and the rounds that carry them
// forward: admit, step the engine, hand out what came of it. The batch loop's
// single-threaded heart; it never waits.
#ifndef HEADRACE_SERVER_BATCHING_BATCHER_H_
#define HEADRACE_SERVER_BATCHING_BATCHER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/batching/active_request.h"
#include "server/batching/batch_stats.h"
#include "server/batching/scheduler.h"
#include "server/batching/step_costs.h"
#include "server/batching/tenant_ledger.h"
#include "server/batching/unread_streams.h"

namespace headrace {

enum class RequestId : uint64_t {};

struct BatcherOptions {
  SchedulerLimits limits;
  // Tokens that prompt lookup may guess per sequence and step; 0: none.
  int64_t max_drafts = 0;
  // How long a reader may hold up requests that wait for what it occupies.
  absl::Duration max_reader_stall = absl::Seconds(60);
  std::function<absl::Time()> now = absl::Now;
  // Called when a request has ended; may be null.
  std::function<void(const RequestRecord&)> on_request_done;
};

// Owned by the batch loop, but for StepTime().
class Batcher {
 public:
  // `engine` outlives this. `on_read` is called from a reader's thread when a
  // paused sequence may go on.
  Batcher(Engine* engine, BatcherOptions options,
          std::function<void()> on_read);

  // A request that can never fit ends with RESOURCE_EXHAUSTED.
  void Add(RequestId id, Submission submission, absl::Time now);
  // Ends a request with `status`; does nothing when it has ended.
  void End(RequestId id, absl::Status status, absl::Time now);
  // Ends all of them, or those that nothing was computed for.
  void EndAll(const absl::Status& status, absl::Time now);
  void EndQueued(const absl::Status& status, absl::Time now);

  // A round is these two: ends what is overdue and admits; runs one step at
  // the most, false when there was nothing to run.
  void Prepare(absl::Time now);
  bool Step(absl::Time now);

  // Ends a request unless something was computed for it.
  void EndIfQueued(RequestId id, absl::Status status, absl::Time now);
  // Those that nothing was computed for.
  std::vector<QueuedRequest> Queued() const;

  // When a request has to be looked at though nothing else happens.
  absl::Time NextDeadline() const;
  bool empty() const { return active_.empty(); }
  // All but what is refused before it gets here.
  BatchStats Stats() const;
  // Moving mean of the time from a request's admission to its end.
  absl::Duration mean_service() const { return mean_service_; }
  // How long the current step has been running; zero between steps.
  // Thread-safe.
  absl::Duration StepTime() const;

 private:
  struct SequenceRef {
    ActiveRequest* request;
    ActiveChoice* choice;
  };

  // Numbers tenants as the scheduler knows them, for one decision.
  class TenantNumbers;

  void CheckFits(ActiveRequest& request, absl::Time now);
  void EndExpired(absl::Time now);
  void Admit(absl::Time now);
  void Open(SequenceRef ref, absl::Time now);
  void Suspend(SequenceRef ref);
  AdmissionState StateOfAdmission() const;
  bool SomeoneWaits() const;
  bool EndIdleReaders(absl::Time now);
  void RemoveEnded();

  bool RunStep(absl::Time now);
  void GuessTokens();
  StepDecision Decide() const;
  bool NotePauses(const StepDecision& decision, absl::Time now);
  void EndOverrun(const StepDecision& decision, absl::Time now);
  Batch MakeBatch(const StepDecision& decision);
  absl::StatusOr<StepResult> Compute(const Batch& batch);
  void Distribute(const Batch& batch, StepResult result, absl::Time now);
  void TakeResult(const SequenceSlice& slice, SequenceResult result,
                  absl::Time now);
  void TakeTokens(SequenceRef ref, std::vector<PositionLogprobs> sampled,
                  absl::Time now);
  void TakeSampled(SequenceRef ref, PositionLogprobs sampled, absl::Time now);
  void CountDrafts(ActiveChoice& choice, int64_t drafted, int64_t accepted);

  void EndChoice(SequenceRef ref, absl::Time now);
  void Fail(ActiveRequest& request, absl::Status status, absl::Time now);
  void Record(ActiveRequest& request, absl::StatusCode code, absl::Time now);

  Engine* const engine_;
  const BatcherOptions options_;
  const std::function<void()> on_read_;

  absl::flat_hash_map<RequestId, std::unique_ptr<ActiveRequest>> active_;
  // Choices that run: open in the engine, with their blocks.
  absl::flat_hash_map<SequenceId, SequenceRef> sequences_;
  UnreadStreams unread_;
  TenantLedger ledger_;
  uint64_t next_sequence_ = 1;
  BatchStats totals_;
  absl::Duration mean_service_;
  StepCosts costs_;
  std::atomic<int64_t> step_started_nanos_{0};  // 0: between steps
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_BATCHER_H_
