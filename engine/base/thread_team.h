// The one team of compute threads. Opened only by the thread that owns the
// engine; gRPC's threads never compute.
#ifndef HEADRACE_ENGINE_BASE_THREAD_TEAM_H_
#define HEADRACE_ENGINE_BASE_THREAD_TEAM_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/worker_placement.h"

namespace headrace {

// A fixed team that runs the tasks of one parallel region at a time. Workers
// spin for a few microseconds after a region (the length of a layer's serial
// part), offering their core to other threads meanwhile, then sleep, so an idle
// team costs nothing.
//
// Which worker runs which task is not fixed; results must not depend on it. A
// region waits for tasks and not for workers: one that sleeps, or whose core
// something else uses, takes no task and holds nobody up.
//
// Owned by the batch loop: ParallelFor is called by one thread at a time.
class ThreadTeam {
 public:
  // `num_threads` counts the calling thread; at least 1. The others stay where
  // `placement` puts them; the caller's thread is left alone.
  explicit ThreadTeam(int num_threads, const WorkerPlacement& placement = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(task_index, thread_index) for every task_index in
  // [0, num_tasks); returns when all are done. thread_index is in
  // [0, num_threads()) and selects per-thread scratch memory.
  using Task = absl::FunctionRef<void(int64_t task_index, int thread_index)>;
  void ParallelFor(int64_t num_tasks, Task task);

 private:
  void WorkerMain(int thread_index);
  // Runs tasks until all are taken; returns how many.
  int64_t RunTasks(int thread_index);
  void WakeSleepers() ABSL_LOCKS_EXCLUDED(mutex_);
  void Sleep() ABSL_LOCKS_EXCLUDED(mutex_);

  // The region in flight; published by untaken_, read by who took a task.
  const Task* task_ = nullptr;
  int64_t num_tasks_ = 0;
  // Tasks that nobody has taken. Whoever takes one keeps the region in flight
  // until it is added to done_.
  std::atomic<int64_t> untaken_{0};
  std::atomic<int64_t> done_{0};  // by workers
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  absl::CondVar wake_;
  uint64_t wakes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> workers_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_THREAD_TEAM_H_
