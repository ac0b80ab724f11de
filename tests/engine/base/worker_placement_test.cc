#include "engine/base/worker_placement.h"

#include <sched.h>

#include <string>
#include <thread>
#include <vector>

#include "engine/base/thread_team.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WorkerPlacementTest : public ::testing::Test {
 protected:
  void PutNode(int node, const std::string& cores) {
    Put("node" + std::to_string(node) + "/cpulist", cores + "\n");
  }
  void Put(const std::string& path, const std::string& text) {
    WriteFile(folder_.path() + "/sys/devices/system/node/" + path, text);
  }
  std::vector<std::vector<int>> Place(int num_threads, int num_cores,
                                      bool has_cpu_quota = false) {
    PlacementSources sources = {.root = folder_.path(),
                                .has_cpu_quota = has_cpu_quota};
    for (int i = 0; i < num_cores; ++i) sources.affinity_cores.push_back(i);
    return PlaceWorkers(num_threads, sources).cores_of_thread;
  }
  TempFolder folder_;
};

TEST_F(WorkerPlacementTest, DealsThreadsOutByTheCoresOfTheNodes) {
  Put("online", "0-1\n");
  PutNode(0, "0-1,4");
  PutNode(1, "2");
  const std::vector<int> first = {0, 1, 4};
  const std::vector<int> second = {2};
  EXPECT_THAT(Place(4, 8), ElementsAre(first, first, first, second));
  EXPECT_THAT(Place(1, 8), ElementsAre(first));
}

TEST_F(WorkerPlacementTest, UsesOnlyCoresOfTheAffinityMask) {
  Put("online", "0,2\n");
  PutNode(0, "0-3");
  PutNode(2, "4-7");
  EXPECT_THAT(Place(2, 6), ElementsAre(std::vector<int>{0, 1, 2, 3},
                                       std::vector<int>{4, 5}));
  EXPECT_THAT(Place(2, 4), IsEmpty());  // all on one node
}

TEST_F(WorkerPlacementTest, LeavesThreadsAloneWhereItWouldNotHelp) {
  EXPECT_THAT(Place(4, 8), IsEmpty());  // nothing known
  Put("online", "0\n");
  PutNode(0, "0-7");
  EXPECT_THAT(Place(4, 8), IsEmpty());
  Put("online", "0-1\n");
  PutNode(0, "0-3");
  PutNode(1, "4-7");
  EXPECT_THAT(Place(4, 8, /*has_cpu_quota=*/true), IsEmpty());
  EXPECT_EQ(Place(4, 8).size(), 4);
  PutNode(1, "no list");
  EXPECT_THAT(Place(4, 8), IsEmpty());
}

TEST_F(WorkerPlacementTest, WorkersStayWhereTheyAreTold) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  ThreadTeam team(2, {.cores_of_thread = {{core}, {core}}});
  const std::thread::id caller = std::this_thread::get_id();
  int cores_of_worker = 0;
  // The worker gets one of the two tasks, in the end.
  while (cores_of_worker == 0) {
    team.ParallelFor(2, [&](int64_t, int thread_index) {
      cpu_set_t mask;
      if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return;
      if (thread_index == 0) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_EQ(CPU_COUNT(&mask), CPU_COUNT(&allowed));
      } else {
        EXPECT_TRUE(CPU_ISSET(core, &mask));
        cores_of_worker = CPU_COUNT(&mask);
      }
    });
  }
  EXPECT_EQ(cores_of_worker, 1);
}

}  // namespace
}  // namespace headrace
