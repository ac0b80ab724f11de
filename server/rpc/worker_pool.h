// Threads for work that gRPC's own threads must not do: tokenizing and checking
// requests, and writing to streams.
#ifndef HEADRACE_SERVER_RPC_WORKER_POOL_H_
#define HEADRACE_SERVER_RPC_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace headrace {

// Thread-safe. Tasks start in order; its destructor runs what is queued.
class WorkerPool {
 public:
  WorkerPool(int num_threads, size_t max_queue);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False, without taking the task, when `max_queue` tasks are waiting.
  bool Post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t max_queue_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_WORKER_POOL_H_
