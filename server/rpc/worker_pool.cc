#include "server/rpc/worker_pool.h"

#include <utility>

namespace headrace {

WorkerPool::WorkerPool(int num_threads, size_t max_queue)
    : max_queue_(max_queue) {
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Post(std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  if (tasks_.size() >= max_queue_) return false;
  tasks_.push_back(std::move(task));
  return true;
}

void WorkerPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return !tasks_.empty() || stopping_;
      };
      mutex_.Await(absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace headrace
