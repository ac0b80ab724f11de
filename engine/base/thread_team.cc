#include "engine/base/thread_team.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

// Spin iterations before a worker sleeps; about 20 microseconds.
constexpr int kSpinIterations = 2000;

// A worker without a task offers its core this often to whoever waits for it;
// who has to wait until its time is up takes it in the middle of a task.
constexpr int kSpinsPerOffer = 64;

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
  stopping_.store(true);
  WakeSleepers();
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
  done_.store(0, std::memory_order_relaxed);
  untaken_.store(num_tasks);  // publishes the fields above
  if (sleeping_.load() > 0) WakeSleepers();
  const int64_t of_workers = num_tasks - RunTasks(0);
  for (int spins = 0; done_.load(std::memory_order_acquire) < of_workers;
       ++spins) {
    // A worker without a core of its own is given this one.
    if (spins < kSpinIterations) {
      CpuRelax();
    } else {
      std::this_thread::yield();
    }
  }
}

int64_t ThreadTeam::RunTasks(int thread_index) {
  int64_t count = 0;
  int64_t untaken = untaken_.load(std::memory_order_relaxed);
  while (untaken > 0) {
    // The region seen may be over and the next begun: then this takes a task
    // of that one.
    if (!untaken_.compare_exchange_weak(untaken, untaken - 1,
                                        std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      continue;
    }
    (*task_)(num_tasks_ - untaken, thread_index);
    ++count;
    untaken = untaken_.load(std::memory_order_relaxed);
  }
  return count;
}

void ThreadTeam::WorkerMain(int thread_index) {
  int spins = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int64_t count = RunTasks(thread_index);
    if (count > 0) {
      done_.fetch_add(count, std::memory_order_release);
      spins = 0;
    } else if (++spins >= kSpinIterations) {
      Sleep();
      spins = 0;
    } else if (spins % kSpinsPerOffer == 0) {
      std::this_thread::yield();
    } else {
      CpuRelax();
    }
  }
}

void ThreadTeam::WakeSleepers() {
  const absl::MutexLock lock(&mutex_);
  ++wakes_;
  sleeping_.store(0);
  wake_.SignalAll();
}

void ThreadTeam::Sleep() {
  const absl::MutexLock lock(&mutex_);
  sleeping_.fetch_add(1);
  // Only now does a new region, or the end, call WakeSleepers().
  if (untaken_.load() > 0 || stopping_.load()) {
    sleeping_.fetch_sub(1);
    return;
  }
  const uint64_t seen = wakes_;
  while (wakes_ == seen) wake_.Wait(&mutex_);
}

}  // namespace headrace
