#include "engine/base/thread_team.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

// ThreadSanitizer delivers signals when it likes.
#if !__has_feature(thread_sanitizer)

// Holds a thread up, as another process on its core would. What the handler of
// a signal may do is little: pipes are among it.
class HeldThread {
 public:
  explicit HeldThread(pthread_t thread) {
    EXPECT_EQ(pipe(entered.data()), 0);
    EXPECT_EQ(pipe(released.data()), 0);
    struct sigaction action = {};
    action.sa_handler = [](int) {
      char byte = 0;
      if (write(entered[1], &byte, 1) == 1) {
        (void)!read(released[0], &byte, 1);
      }
    };
    EXPECT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    EXPECT_EQ(pthread_kill(thread, SIGUSR1), 0);
    char byte = 0;
    EXPECT_EQ(read(entered[0], &byte, 1), 1);
  }
  ~HeldThread() {
    const char byte = 0;
    EXPECT_EQ(write(released[1], &byte, 1), 1);
  }
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

 private:
  static inline std::array<int, 2> entered;
  static inline std::array<int, 2> released;
};

TEST(ThreadTeamTest, DoesNotWaitForAWorkerThatTakesNoTask) {
  ThreadTeam team(2);
  // The worker gets one of the two tasks, in the end.
  std::atomic<bool> known{false};
  pthread_t worker = {};
  while (!known.load()) {
    team.ParallelFor(2, [&](int64_t, int thread_index) {
      if (thread_index == 0) return;
      worker = pthread_self();
      known.store(true);
    });
  }
  const HeldThread held(worker);

  int runs = 0;
  for (int region = 0; region < 100; ++region) {
    team.ParallelFor(16, [&](int64_t, int thread_index) {
      EXPECT_EQ(thread_index, 0);
      ++runs;
    });
  }

  EXPECT_EQ(runs, 1600);
}

#endif

TEST(ThreadTeamTest, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.num_threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      team.ParallelFor(tasks, [&](int64_t i, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        runs[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const std::atomic<int>& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadTeamTest, ManyShortRegionsInARow) {
  ThreadTeam team(3);
  int64_t sum = 0;
  for (int region = 0; region < 4000; ++region) {
    std::atomic<int64_t> part{0};
    team.ParallelFor(4, [&](int64_t i, int) { part.fetch_add(i); });
    sum += part.load();
  }

  EXPECT_EQ(sum, 4000 * 6);
}

TEST(ThreadTeamTest, WhatOneRegionWroteTheNextReads) {
  ThreadTeam team(2);
  std::vector<int> left(64, 0);
  std::vector<int> right(64, 0);
  for (int round = 1; round <= 500; ++round) {
    team.ParallelFor(64, [&](int64_t i, int) {
      left[static_cast<size_t>(i)] = right[static_cast<size_t>(63 - i)] + 1;
    });
    team.ParallelFor(64, [&](int64_t i, int) {
      right[static_cast<size_t>(i)] = left[static_cast<size_t>(63 - i)];
    });
  }

  for (const int value : right) EXPECT_EQ(value, 500);
}

}  // namespace
}  // namespace headrace
