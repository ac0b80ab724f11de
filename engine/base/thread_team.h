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
// part), then sleep, so an idle team costs nothing.
//
// Which worker runs which task is not fixed; results must not depend on it.
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
  void RunTasks(int thread_index);

  // The region in flight; published by generation_, read by the workers.
  const Task* task_ = nullptr;
  int64_t num_tasks_ = 0;
  std::atomic<int64_t> next_task_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<int> running_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  absl::Mutex mutex_;
  absl::CondVar wake_;
  std::vector<std::thread> workers_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_THREAD_TEAM_H_
