#include "engine/base/thread_team.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

// Spin iterations before a worker sleeps; about 20 microseconds.
constexpr int kSpinIterations = 2000;

inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int num_threads, const WorkerPlacement& placement) {
  for (int i = 1; i < std::max(1, num_threads); ++i) {
    const auto index = static_cast<size_t>(i);
    std::vector<int> cores;
    if (index < placement.cores_of_thread.size()) {
      cores = placement.cores_of_thread[index];
    }
    workers_.emplace_back([this, i, cores = std::move(cores)] {
      if (!cores.empty()) StayOn(cores);
      WorkerMain(i);
    });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_.store(true);
    generation_.fetch_add(1);
    wake_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::ParallelFor(int64_t num_tasks, Task task) {
  if (num_tasks <= 0) return;
  if (workers_.empty() || num_tasks == 1) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i, 0);
    return;
  }
  task_ = &task;
  num_tasks_ = num_tasks;
  next_task_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1);  // publishes the fields above
  if (sleeping_.load() > 0) {
    const absl::MutexLock lock(&mutex_);
    wake_.SignalAll();
  }
  RunTasks(0);
  for (int spins = 0; running_.load(std::memory_order_acquire) > 0; ++spins) {
    // A worker without a core of its own is given this one.
    if (spins < kSpinIterations) {
      CpuRelax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadTeam::RunTasks(int thread_index) {
  for (;;) {
    const int64_t i = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (i >= num_tasks_) return;
    (*task_)(i, thread_index);
  }
}

void ThreadTeam::WorkerMain(int thread_index) {
  uint32_t seen = 0;
  for (;;) {
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (++spins < kSpinIterations) {
        CpuRelax();
        continue;
      }
      const absl::MutexLock lock(&mutex_);
      sleeping_.fetch_add(1);
      while (generation_.load() == seen) wake_.Wait(&mutex_);
      sleeping_.fetch_sub(1);
    }
    ++seen;
    if (stopping_.load()) return;
    RunTasks(thread_index);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace headrace
