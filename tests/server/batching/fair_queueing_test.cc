// Fairness across tenants: the ledger, the order, and worlds of several tenants
// that the scheduler's decisions drive.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/scheduler.h"
#include "server/batching/tenant_ledger.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(TenantLedgerTest, ANewcomerIsLiftedToTheLeastOfThosePresent) {
  TenantLedger ledger;
  ledger.Enter("a");
  ledger.Enter("b");
  ledger.Charge("a", 100);
  ledger.Charge("b", 70);

  ledger.Enter("c");

  EXPECT_EQ(ledger.served("c"), 70) << "nobody saves up by being away";
  ledger.Enter("c");
  EXPECT_EQ(ledger.served("c"), 70);
}

TEST(TenantLedgerTest, ALargeAccountIsKeptWhileItsTenantIsAway) {
  TenantLedger ledger;
  ledger.Enter("a");
  ledger.Enter("b");
  ledger.Charge("b", 500);

  ledger.Leave("b");
  ledger.Enter("b");
  EXPECT_EQ(ledger.served("b"), 500);

  ledger.Leave("b");
  ledger.Charge("a", 600);
  ledger.Enter("b");
  EXPECT_EQ(ledger.served("b"), 600);
}

TEST(TenantLedgerTest, ForgetsEverybodyWhenNobodyIsThere) {
  TenantLedger ledger;
  ledger.Enter("a");
  ledger.Charge("a", 5);
  ledger.Leave("a");

  EXPECT_EQ(ledger.num_accounts(), 0u);
}

TEST(TenantLedgerTest, NamesMadeUpByClientsDoNotPileUp) {
  TenantLedger ledger;
  ledger.Enter("stays");
  for (int i = 0; i < 5000; ++i) {
    const std::string name = absl::StrCat("made up ", i);
    ledger.Enter(name);
    ledger.Charge(name, 1 + i);
    ledger.Leave(name);
  }

  EXPECT_LE(ledger.num_accounts(), 1100u);
}

WaitingChoice Waiting(uint64_t id, size_t tenant, int64_t cost,
                      int32_t priority = 0) {
  return {.id = SequenceId{id},
          .priority = priority,
          .order = id,
          .tenant = tenant,
          .cost = cost,
          .blocks = 1};
}

std::vector<uint64_t> Ids(const std::vector<SequenceId>& ids) {
  std::vector<uint64_t> numbers;
  for (const SequenceId id : ids) numbers.push_back(static_cast<uint64_t>(id));
  return numbers;
}

TEST(FairAdmissionTest, TheTenantThatHadLeastGoesFirst) {
  const AdmissionState state{.free_blocks = 3,
                             .accounts = {100, 40},
                             .waiting = {Waiting(1, 0, 50), Waiting(2, 0, 50),
                                         Waiting(3, 1, 50), Waiting(4, 1, 50)}};

  EXPECT_THAT(Ids(DecideAdmission(state, {}).admit), ElementsAre(3, 4, 1))
      << "40, then 90, then 100 before 140";
}

TEST(FairAdmissionTest, PriorityIsStrongerThanFairness) {
  const AdmissionState state{
      .free_blocks = 2,
      .accounts = {1000000, 0},
      .waiting = {Waiting(1, 1, 1), Waiting(2, 0, 1, /*priority=*/1)}};

  EXPECT_THAT(Ids(DecideAdmission(state, {}).admit), ElementsAre(2, 1));
}

TEST(DisplacementTest, TheFullestTenantGivesUpItsNewestRequest) {
  const std::vector<QueuedRequest> queued = {
      {.id = 1, .tenant = "flood"}, {.id = 2, .tenant = "flood"},
      {.id = 3, .tenant = "pair"},  {.id = 4, .tenant = "flood"},
      {.id = 5, .tenant = "pair"},
  };

  EXPECT_THAT(DecideDisplacement(queued, "new", 0), Optional(4u));
  EXPECT_EQ(DecideDisplacement(queued, "flood", 0), std::nullopt)
      << "nobody makes room for the fullest";
  EXPECT_EQ(DecideDisplacement(queued, "pair", 0), std::nullopt)
      << "three and two are as even as it gets";
}

TEST(DisplacementTest, AHigherPriorityIsNeverDisplaced) {
  const std::vector<QueuedRequest> queued = {
      {.id = 1, .priority = 2, .tenant = "flood"},
      {.id = 2, .priority = 0, .tenant = "flood"},
      {.id = 3, .priority = 5, .tenant = "flood"},
  };

  EXPECT_THAT(DecideDisplacement(queued, "new", 1), Optional(2u));
  EXPECT_EQ(DecideDisplacement(queued, "new", -1), std::nullopt);
  EXPECT_THAT(DecideDisplacement(queued, "new", 9), Optional(2u))
      << "the least important first";
}

// Tenants, each with requests of one size, and a server of so many blocks.
class World {
 public:
  explicit World(SchedulerLimits limits = {.max_batch_rows = 128,
                                           .max_num_seqs = 8})
      : limits_(limits) {}

  struct Size {
    int64_t prompt = 0;
    int64_t answer = 0;
  };

  void Submit(const std::string& tenant, Size size, int count = 1) {
    for (int i = 0; i < count; ++i) {
      ledger_.Enter(tenant);
      waiting_[next_id_] = {
          .tenant = tenant, .prompt = size.prompt, .answer = size.answer};
      ++next_id_;
    }
  }

  // One round; the tenants whose choices were admitted, in order.
  std::vector<std::string> Round() {
    std::vector<std::string> admitted = Admit();
    Step();
    return admitted;
  }

  int64_t served(const std::string& tenant) const {
    const auto found = total_.find(tenant);
    return found == total_.end() ? 0 : found->second;
  }
  int64_t waiting(const std::string& tenant) const {
    return std::count_if(
        waiting_.begin(), waiting_.end(),
        [&](const auto& entry) { return entry.second.tenant == tenant; });
  }
  bool Present(const std::string& tenant) const {
    return waiting(tenant) > 0 ||
           std::any_of(running_.begin(), running_.end(), [&](const auto& e) {
             return e.second.tenant == tenant;
           });
  }
  // Of the tenant's running choices.
  int64_t prompt_rows_left(const std::string& tenant) const {
    int64_t rows = 0;
    for (const auto& [id, choice] : running_) {
      if (choice.tenant == tenant) rows += choice.prompt;
    }
    return rows;
  }

 private:
  static constexpr int64_t kBlocks = 256;
  struct Choice {
    std::string tenant;
    int64_t prompt = 0;
    int64_t answer = 0;
    int64_t blocks() const { return (prompt + answer + 15) / 16; }
    int64_t cost() const { return ServiceCost(prompt, answer); }
  };

  std::vector<std::string> Admit() {
    AdmissionState state{.free_blocks = kBlocks - used_blocks_,
                         .running = static_cast<int64_t>(running_.size())};
    state.accounts.clear();
    std::map<std::string, size_t> numbers;
    const auto number = [&](const std::string& tenant) {
      const auto [found, is_new] =
          numbers.try_emplace(tenant, state.accounts.size());
      if (is_new) state.accounts.push_back(ledger_.served(tenant));
      return found->second;
    };
    for (const auto& [id, choice] : running_) {
      state.accounts[number(choice.tenant)] += choice.cost();
    }
    for (const auto& [id, choice] : waiting_) {
      state.waiting.push_back({.id = SequenceId{id},
                               .order = id,
                               .tenant = number(choice.tenant),
                               .cost = choice.cost(),
                               .blocks = choice.blocks()});
    }
    std::vector<std::string> admitted;
    for (const uint64_t id : Ids(DecideAdmission(state, limits_).admit)) {
      Choice choice = waiting_.at(id);
      waiting_.erase(id);
      used_blocks_ += choice.blocks();
      blocks_[id] = choice.blocks();
      admitted.push_back(choice.tenant);
      running_[id] = std::move(choice);
    }
    return admitted;
  }

  void Step() {
    StepState state;
    state.accounts.clear();
    std::map<std::string, size_t> numbers;
    for (const auto& [id, choice] : running_) {
      const auto [found, is_new] =
          numbers.try_emplace(choice.tenant, state.accounts.size());
      if (is_new) state.accounts.push_back(ledger_.served(choice.tenant));
      state.running.push_back({.id = SequenceId{id},
                               .order = id,
                               .tenant = found->second,
                               .reader = state.readers.size(),
                               .prompt_rows = choice.prompt});
      state.readers.push_back({.token_room = 1024, .token_capacity = 1024});
    }
    for (const StepDecision::Slice& slice : DecideStep(state, limits_).slices) {
      Serve(static_cast<uint64_t>(slice.id), slice.num_rows);
    }
  }

  void Serve(uint64_t id, int64_t rows) {
    Choice& choice = running_.at(id);
    const bool is_prompt = choice.prompt > 0;
    const int64_t cost =
        is_prompt ? ServiceCost(rows, 0) : ServiceCost(0, rows);
    ledger_.Charge(choice.tenant, cost);
    total_[choice.tenant] += cost;
    (is_prompt ? choice.prompt : choice.answer) -= rows;
    if (choice.prompt > 0 || choice.answer > 0) return;
    used_blocks_ -= blocks_.at(id);
    ledger_.Leave(choice.tenant);
    running_.erase(id);
  }

  const SchedulerLimits limits_;
  TenantLedger ledger_;
  std::map<uint64_t, Choice> waiting_;
  std::map<uint64_t, Choice> running_;
  std::map<uint64_t, int64_t> blocks_;
  std::map<std::string, int64_t> total_;
  int64_t used_blocks_ = 0;
  uint64_t next_id_ = 1;
};

// Rounds until the tenant's only waiting request is admitted, and how many of
// others are admitted before it.
int64_t OvertakenBeforeAdmission(World& world, const std::string& tenant) {
  int64_t others = 0;
  for (int round = 0; round < 10000; ++round) {
    for (const std::string& admitted : world.Round()) {
      if (admitted == tenant) return others;
      ++others;
    }
  }
  return -1;
}

TEST(FairQueueingSimulationTest, AFloodDoesNotDelayAnotherTenant) {
  for (const int flood : {100, 2000}) {
    World world;
    world.Submit("flood", {.prompt = 60, .answer = 40}, flood);
    for (int round = 0; round < 500; ++round) world.Round();

    world.Submit("guest", {.prompt = 60, .answer = 40});

    EXPECT_EQ(OvertakenBeforeAdmission(world, "guest"), 0) << flood;
  }
}

TEST(FairQueueingSimulationTest, ABackloggedTenantGetsItsShareAtAllTimes) {
  const std::map<std::string, World::Size> sizes = {
      {"small", {.prompt = 10, .answer = 8}},
      {"long answers", {.prompt = 20, .answer = 300}},
      {"long prompts", {.prompt = 900, .answer = 10}}};
  World world;
  int64_t dearest = 0;
  for (const auto& [tenant, size] : sizes) {
    dearest = std::max(dearest, ServiceCost(size.prompt, size.answer));
  }
  for (int round = 0; round < 6000; ++round) {
    for (const auto& [tenant, size] : sizes) {
      if (world.waiting(tenant) == 0) world.Submit(tenant, size, 20);
    }
    world.Round();
    int64_t least = world.served("small");
    int64_t most = least;
    for (const auto& [tenant, size] : sizes) {
      least = std::min(least, world.served(tenant));
      most = std::max(most, world.served(tenant));
    }
    // What is reserved and not yet served: at most all 8 places.
    ASSERT_LE(most - least, 9 * dearest) << "round " << round;
  }
  EXPECT_GT(world.served("small"), 20 * dearest);
}

TEST(FairQueueingSimulationTest, ComingAndGoingGainsNothing) {
  // One request at a time, of a kind that takes half of the server.
  const World::Size large{.prompt = 1500, .answer = 400};
  World world;
  for (int round = 0; round < 5000; ++round) {
    if (world.waiting("patient") == 0) {
      world.Submit("patient", {.prompt = 30, .answer = 20}, 50);
    }
    if (!world.Present("pulsing")) world.Submit("pulsing", large);
    world.Round();
  }

  EXPECT_GT(world.served("pulsing"), 0);
  EXPECT_LE(
      world.served("pulsing"),
      world.served("patient") + 2 * ServiceCost(large.prompt, large.answer));
}

TEST(FairQueueingSimulationTest, APromptDoesNotWaitForAllPromptsOfAnother) {
  World world;
  world.Submit("flood", {.prompt = 500, .answer = 1}, 6);
  world.Round();
  ASSERT_GT(world.prompt_rows_left("flood"), 2000);

  world.Submit("guest", {.prompt = 100, .answer = 50});
  world.Round();
  world.Round();

  EXPECT_EQ(world.prompt_rows_left("guest"), 0);
  EXPECT_GT(world.prompt_rows_left("flood"), 2000);
}

}  // namespace
}  // namespace headrace
