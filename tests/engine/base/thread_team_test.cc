#include "engine/base/thread_team.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

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
