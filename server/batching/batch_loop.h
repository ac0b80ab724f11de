// The one thread that owns the engine, and the thread-safe door to it. It
// takes requests and cancellations, lets the batcher carry all requests one
// step forward, and sleeps when there is nothing to do.
//
// A cancellation, a deadline or a reader that went away takes effect before
// the next step, in every phase (queued, prefill, decode, waiting for the
// reader), and gives every block and buffer back at once.
#ifndef HEADRACE_SERVER_BATCHING_BATCH_LOOP_H_
#define HEADRACE_SERVER_BATCHING_BATCH_LOOP_H_

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/batching/batch_stats.h"
#include "server/batching/batcher.h"

namespace headrace {

struct BatchLoopOptions {
  BatcherOptions batcher;
  int64_t max_queue = 256;  // requests that wait for admission
};

// Thread-safe, but for RunOnce(). Outlives the readers of its streams.
class BatchLoop {
 public:
  // `engine` outlives this.
  BatchLoop(Engine* engine, BatchLoopOptions options);
  ~BatchLoop();
  BatchLoop(const BatchLoop&) = delete;
  BatchLoop& operator=(const BatchLoop&) = delete;

  // Starts the thread. Without it, a test calls RunOnce().
  void Start();

  // Queues a request. Its stream ends in an EndEvent or a FailedEvent; in a
  // full queue it may take the place of another tenant's (DecideDisplacement).
  // Errors: RESOURCE_EXHAUSTED when the queue is full (with a retry delay);
  // UNAVAILABLE when draining; DEADLINE_EXCEEDED.
  absl::StatusOr<RequestId> Submit(Submission submission)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a request; does nothing when it has ended.
  void Cancel(RequestId id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new requests and ends those that nothing was computed for; the
  // others run on.
  void BeginDrain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends every request with UNAVAILABLE.
  void CancelAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no request is left; false after `timeout`.
  bool WaitUntilIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // As of the last step's begin or end.
  BatchStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How long the current step has been running; zero between steps.
  absl::Duration StepTime() const { return batcher_.StepTime(); }

  // One round: what arrived, then one step at the most. False when there was
  // nothing to run.
  bool RunOnce() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Inbox {
    std::vector<std::pair<RequestId, Submission>> submissions;
    std::vector<RequestId> cancellations;
    std::vector<RequestId> displaced;  // made room in the queue
    bool cancel_all = false;
    bool wake = false;  // a reader made room, or a drain began
    bool empty() const {
      return submissions.empty() && cancellations.empty() &&
             displaced.empty() && !cancel_all && !wake;
    }
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeInbox(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void PublishStats() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status QueueFullError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration RetryDelay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BatchLoopOptions options_;
  Batcher batcher_;  // owned by the loop's thread

  mutable absl::Mutex mutex_;
  Inbox inbox_ ABSL_GUARDED_BY(mutex_);
  BatchStats stats_ ABSL_GUARDED_BY(mutex_);
  std::vector<QueuedRequest> queued_ ABSL_GUARDED_BY(mutex_);
  absl::Duration mean_service_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool idle_ ABSL_GUARDED_BY(mutex_) = true;

  std::thread thread_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_BATCH_LOOP_H_
