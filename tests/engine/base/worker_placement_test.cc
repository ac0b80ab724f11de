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

// Of the calling thread.
std::vector<int> AllowedCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

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
  EXPECT_THAT(Place(3, 8), ElementsAre(first, first, second));
  EXPECT_THAT(Place(2, 8), ElementsAre(first, second));
}

TEST_F(WorkerPlacementTest, GivesEachThreadOfAFullTeamItsOwnCore) {
  const auto is_full = ElementsAre(ElementsAre(0), ElementsAre(1),
                                   ElementsAre(2), ElementsAre(3));
  EXPECT_THAT(Place(4, 4), is_full);  // of nodes nothing is known
  Put("online", "0-1\n");
  PutNode(0, "0-3");
  PutNode(1, "4-7");
  EXPECT_THAT(Place(4, 4), is_full);
  PutNode(0, "0,2");
  PutNode(1, "1,3");
  EXPECT_THAT(Place(4, 4), ElementsAre(ElementsAre(0), ElementsAre(2),
                                       ElementsAre(1), ElementsAre(3)));
  EXPECT_THAT(Place(5, 4), IsEmpty());
  EXPECT_THAT(Place(4, 4, /*has_cpu_quota=*/true), IsEmpty());
  EXPECT_THAT(Place(1, 1), IsEmpty());
}

TEST(CoresBesideFirstTest, AreThoseOfTheOtherThreads) {
  EXPECT_THAT(
      (WorkerPlacement{.cores_of_thread = {{4}, {0}, {2}}}.CoresBesideFirst()),
      ElementsAre(0, 2));
  EXPECT_THAT(
      (WorkerPlacement{.cores_of_thread = {{0, 1}, {0, 1}}}.CoresBesideFirst()),
      IsEmpty());
  EXPECT_THAT(WorkerPlacement{}.CoresBesideFirst(), IsEmpty());
}

TEST(WorkerPlacementWordsTest, SayWhatEachThreadHas) {
  EXPECT_STREQ((WorkerPlacement{.cores_of_thread = {{0}, {1}}}.Words()),
               ", each on a core of its own");
  EXPECT_STREQ((WorkerPlacement{.cores_of_thread = {{0, 1}, {2, 3}}}.Words()),
               ", each on its memory node");
  EXPECT_STREQ(WorkerPlacement{}.Words(), "");
}

TEST(StartThreadsThatGiveWayTest, HoldsForThreadsThatStartMeanwhile) {
  const std::vector<int> before = AllowedCores();
  const std::vector<int> last = {before.back()};
  const int policy_before = sched_getscheduler(0);
  std::vector<int> meanwhile;
  int policy_meanwhile = -1;
  {
    const StartThreadsThatGiveWay start(last);
    std::thread([&] {
      meanwhile = AllowedCores();
      policy_meanwhile = sched_getscheduler(0);
    }).join();
  }
  EXPECT_EQ(meanwhile, last);
  EXPECT_EQ(policy_meanwhile,
            policy_before == SCHED_OTHER ? SCHED_BATCH : policy_before);
  EXPECT_EQ(AllowedCores(), before);
  EXPECT_EQ(sched_getscheduler(0), policy_before);
  {
    const StartThreadsThatGiveWay start({});
    EXPECT_EQ(AllowedCores(), before);
    EXPECT_EQ(sched_getscheduler(0), policy_before);
    StayOn(last);  // what else is set meanwhile is left alone
  }
  EXPECT_EQ(AllowedCores(), last);
  StayOn(before);
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
  EXPECT_THAT(Place(3, 8), IsEmpty());
}

TEST_F(WorkerPlacementTest, WorkersStayWhereTheyAreTold) {
  const std::vector<int> allowed = AllowedCores();
  const std::vector<int> last = {allowed.back()};
  ThreadTeam team(2, {.cores_of_thread = {{allowed.front()}, last}});
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<int> cores_of_worker;
  // The worker gets one of the two tasks, in the end.
  while (cores_of_worker.empty()) {
    team.ParallelFor(2, [&](int64_t, int thread_index) {
      if (thread_index == 0) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_EQ(AllowedCores(), allowed);
      } else {
        cores_of_worker = AllowedCores();
      }
    });
  }
  EXPECT_EQ(cores_of_worker, last);
}

}  // namespace
}  // namespace headrace
