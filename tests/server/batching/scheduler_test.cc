#include "server/batching/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SequenceId kA{1};
constexpr SequenceId kB{2};
constexpr SequenceId kC{3};
constexpr SequenceId kD{4};

WaitingChoice Waiting(SequenceId id, int64_t blocks, int32_t priority = 0) {
  return {.id = id,
          .priority = priority,
          .order = static_cast<uint64_t>(id),
          .blocks = blocks};
}

// A reader with room for everything.
ReaderState FreeReader() {
  return {.token_room = 1024, .token_capacity = 1024};
}

RunningChoice Decoding(SequenceId id, size_t reader = 0) {
  return {.id = id, .order = static_cast<uint64_t>(id), .reader = reader};
}

RunningChoice Prefilling(SequenceId id, int64_t rows, size_t reader = 0) {
  RunningChoice choice = Decoding(id, reader);
  choice.prompt_rows = rows;
  return choice;
}

// Each row of many takes so long.
StepCosts RowsCost(absl::Duration row) {
  StepCosts costs;
  costs.Measure(1000, 1000 * row);
  return costs;
}

int64_t RowsOf(const StepDecision& decision, SequenceId id) {
  for (const StepDecision::Slice& slice : decision.slices) {
    if (slice.id == id) return slice.num_rows;
  }
  return 0;
}

TEST(AdmissionTest, TakesWhatFitsInOrderOfArrival) {
  const AdmissionState state{
      .free_blocks = 10,
      .waiting = {Waiting(kB, 4), Waiting(kC, 4), Waiting(kA, 4)}};

  EXPECT_THAT(DecideAdmission(state, {}).admit, ElementsAre(kA, kB));
}

TEST(AdmissionTest, AdmitsNothingWhenTheKvCacheIsFull) {
  const AdmissionState state{.free_blocks = 0, .waiting = {Waiting(kA, 1)}};

  EXPECT_THAT(DecideAdmission(state, {}).admit, IsEmpty());
}

TEST(AdmissionTest, ALargeRequestIsNotOvertakenBySmallOnes) {
  const AdmissionState state{.free_blocks = 5,
                             .waiting = {Waiting(kA, 6), Waiting(kB, 1)}};

  EXPECT_THAT(DecideAdmission(state, {}).admit, IsEmpty());
}

TEST(AdmissionTest, HigherPriorityGoesFirst) {
  const AdmissionState state{
      .free_blocks = 4,
      .waiting = {Waiting(kA, 4), Waiting(kB, 4, /*priority=*/-1),
                  Waiting(kC, 4, /*priority=*/7)}};

  EXPECT_THAT(DecideAdmission(state, {}).admit, ElementsAre(kC));
}

TEST(AdmissionTest, KeepsWithinMaxNumSeqs) {
  const AdmissionState state{
      .free_blocks = 100,
      .running = 2,
      .waiting = {Waiting(kA, 1), Waiting(kB, 1), Waiting(kC, 1)}};

  EXPECT_THAT(DecideAdmission(state, {.max_num_seqs = 4}).admit,
              ElementsAre(kA, kB));
}

WaitingChoice Capturing(SequenceId id, int64_t ring_bytes) {
  WaitingChoice choice = Waiting(id, 1);
  choice.ring_bytes = ring_bytes;
  return choice;
}

TEST(AdmissionTest, RingsOfAllReadersAreBounded) {
  const SchedulerLimits limits{.max_ring_bytes = 100};
  AdmissionState state{
      .free_blocks = 10,
      .ring_bytes = 40,
      .waiting = {Capturing(kA, 60), Capturing(kB, 1), Waiting(kC, 1)}};
  EXPECT_THAT(DecideAdmission(state, limits).admit, ElementsAre(kA, kC))
      << "what needs no ring does not wait for one";

  state.ring_bytes = 41;
  EXPECT_THAT(DecideAdmission(state, limits).admit, ElementsAre(kC))
      << "a small ring does not overtake a large one";
}

TEST(AdmissionTest, ALargeRingRunsAlone) {
  const AdmissionState state{.free_blocks = 10,
                             .waiting = {Capturing(kA, 500), Capturing(kB, 1)}};

  EXPECT_THAT(DecideAdmission(state, {.max_ring_bytes = 100}).admit,
              ElementsAre(kA));
}

AdmittedChoice Admitted(SequenceId id, int64_t blocks, int32_t priority = 0) {
  return {.id = id,
          .priority = priority,
          .order = static_cast<uint64_t>(id),
          .blocks = blocks};
}

TEST(PreemptionTest, TheYoungestOfTheLeastImportantGivesWay) {
  const AdmissionState state{
      .free_blocks = 1,
      .running = 3,
      .admitted = {Admitted(kA, 4), Admitted(kB, 4), Admitted(kC, 4, 1)},
      .waiting = {Waiting(kD, 4, /*priority=*/2)}};

  const AdmissionDecision decision = DecideAdmission(state, {});

  EXPECT_THAT(decision.admit, IsEmpty());
  EXPECT_THAT(decision.suspend, ElementsAre(kB));
}

TEST(PreemptionTest, EqualPrioritiesNeverGiveWay) {
  const AdmissionState state{.free_blocks = 0,
                             .running = 1,
                             .admitted = {Admitted(kA, 4, 2)},
                             .waiting = {Waiting(kD, 1, /*priority=*/2)}};

  EXPECT_THAT(DecideAdmission(state, {}).suspend, IsEmpty());
}

TEST(PreemptionTest, NobodyGivesWayInVain) {
  const AdmissionState state{
      .free_blocks = 1,
      .running = 2,
      .admitted = {Admitted(kA, 4), Admitted(kB, 4, /*priority=*/5)},
      .waiting = {Waiting(kD, 6, /*priority=*/2)}};

  EXPECT_THAT(DecideAdmission(state, {}).suspend, IsEmpty());
}

TEST(PreemptionTest, NoMoreThanNeededGiveWay) {
  const AdmissionState state{
      .free_blocks = 0,
      .running = 3,
      .admitted = {Admitted(kA, 8), Admitted(kB, 2), Admitted(kC, 1)},
      .waiting = {Waiting(kD, 7, /*priority=*/1)}};

  EXPECT_THAT(DecideAdmission(state, {}).suspend, ElementsAre(kA))
      << "without kA the others do not suffice, with it they are not needed";
}

TEST(PreemptionTest, APlaceIsReasonEnough) {
  const AdmissionState state{.free_blocks = 100,
                             .running = 2,
                             .admitted = {Admitted(kA, 4), Admitted(kB, 4)},
                             .waiting = {Waiting(kD, 4, /*priority=*/1)}};

  EXPECT_THAT(DecideAdmission(state, {.max_num_seqs = 2}).suspend,
              ElementsAre(kB));
  EXPECT_THAT(DecideAdmission(state, {.max_num_seqs = 3}).suspend, IsEmpty());
}

TEST(StepTest, RowsOfAReplaySendNothing) {
  ReaderState reader = FreeReader();
  reader.token_room = 1;
  reader.token_capacity = 2;
  RunningChoice choice = Decoding(kA);
  choice.replay_rows = 100;
  choice.captures_token = true;
  choice.ring_cost = 10;
  StepState state{.running = {choice}, .readers = {reader}};

  EXPECT_EQ(RowsOf(DecideStep(state, {.max_batch_rows = 64}), kA), 64);
  EXPECT_EQ(RowsOf(DecideStep(state, {.max_batch_rows = 512}), kA), 100)
      << "the token's row needs room in the ring";
  state.readers[0].ring_room = state.readers[0].ring_capacity = 20;
  EXPECT_EQ(RowsOf(DecideStep(state, {.max_batch_rows = 512}), kA), 101);
}

TEST(StepTest, AReplayRidesBesideDecodeLikeAPrompt) {
  RunningChoice replay = Decoding(kA);
  replay.replay_rows = 1000;
  const StepState state{.running = {replay, Decoding(kB)},
                        .readers = {FreeReader()},
                        .costs = RowsCost(absl::Milliseconds(2))};

  const StepDecision decision =
      DecideStep(state, {.max_decode_stall = absl::Milliseconds(100)});

  EXPECT_EQ(RowsOf(decision, kA), 50);
  EXPECT_EQ(RowsOf(decision, kB), 1);
}

TEST(StepTest, DecodeRowsComeBeforePromptRows) {
  const StepState state{.running = {Prefilling(kA, 1000), Decoding(kB)},
                        .readers = {FreeReader()},
                        .costs = RowsCost(absl::Milliseconds(1))};

  const StepDecision decision = DecideStep(state, {.max_batch_rows = 64});

  ASSERT_THAT(decision.slices, SizeIs(2));
  EXPECT_EQ(decision.slices[0].id, kB);
  EXPECT_EQ(RowsOf(decision, kA), 63);
}

TEST(StepTest, SeveralPromptsShareTheBudgetInOrder) {
  const StepState state{.running = {Prefilling(kB, 100), Prefilling(kA, 40)},
                        .readers = {FreeReader()}};

  const StepDecision decision = DecideStep(state, {.max_batch_rows = 64});

  EXPECT_EQ(RowsOf(decision, kA), 40);
  EXPECT_EQ(RowsOf(decision, kB), 24);
}

TEST(StepTest, PromptRowsBesideDecodeKeepWithinTheStall) {
  StepState state{.running = {Prefilling(kA, 1000), Decoding(kB)},
                  .readers = {FreeReader()},
                  .costs = RowsCost(absl::Milliseconds(2))};
  const SchedulerLimits limits{.max_batch_rows = 512,
                               .max_decode_stall = absl::Milliseconds(100)};

  EXPECT_EQ(RowsOf(DecideStep(state, limits), kA), 50);
  const StepCosts measured = std::exchange(state.costs, {});
  EXPECT_EQ(RowsOf(DecideStep(state, limits), kA), 16)
      << "few before anything was measured";
  state.costs = measured;
  state.costs = RowsCost(absl::Seconds(1));
  EXPECT_EQ(RowsOf(DecideStep(state, limits), kA), 16) << "never fewer";
  state.running.pop_back();
  EXPECT_EQ(RowsOf(DecideStep(state, limits), kA), 512)
      << "nobody waits when nobody decodes";
}

// A step takes 10 ms, and `per_row` more for every row beside the first.
StepCosts FewRowsCost(double per_row_ms) {
  StepCosts costs;
  for (int64_t rows = 1; rows <= 32; ++rows) {
    costs.Measure(rows, absl::Milliseconds(
                            10 + per_row_ms * static_cast<double>(rows - 1)));
  }
  return costs;
}

RunningChoice Drafting(SequenceId id, int64_t drafts, double acceptance) {
  RunningChoice choice = Decoding(id);
  choice.drafts = drafts;
  choice.draft_acceptance = acceptance;
  return choice;
}

TEST(DraftTest, RideAlongWhereTheyPay) {
  const auto rows = [](double acceptance, double per_row_ms) {
    return RowsOf(DecideStep({.running = {Drafting(kA, 6, acceptance)},
                              .readers = {FreeReader()},
                              .costs = FewRowsCost(per_row_ms)},
                             {}),
                  kA);
  };
  EXPECT_EQ(rows(1.0, 1), 7) << "seven tokens in 16 ms instead of 70";
  EXPECT_EQ(rows(1.0, 10), 1) << "rows cost what steps cost";
  EXPECT_EQ(rows(0.05, 1), 1) << "guesses seldom come";
  EXPECT_EQ(rows(0.5, 1), 3) << "1.75 tokens in 12 ms: a third adds less";
  EXPECT_EQ(rows(0.5, 4.4), 1) << "the gain is less than a twentieth";
}

TEST(DraftTest, UnknownCostsAreMeasuredFirst) {
  const StepState state{.running = {Drafting(kA, 6, 1.0)},
                        .readers = {FreeReader()}};

  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 1);
}

TEST(DraftTest, NotWhileAPromptIsComputed) {
  const StepState state{.running = {Drafting(kA, 6, 1.0), Prefilling(kB, 10)},
                        .readers = {FreeReader()},
                        .costs = FewRowsCost(0.1)};

  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 1);
}

TEST(DraftTest, NotInALargeBatch) {
  StepState state{.readers = {FreeReader()}, .costs = FewRowsCost(0.1)};
  for (uint64_t id = 1; id <= 8; ++id) {
    state.running.push_back(Drafting(SequenceId{id}, 2, 1.0));
  }
  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 3);

  state.running.push_back(Drafting(SequenceId{9}, 2, 1.0));
  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 1);
}

TEST(DraftTest, EverySequenceKeepsItsRow) {
  StepState state{.readers = {FreeReader()}, .costs = FewRowsCost(0.1)};
  for (uint64_t id = 1; id <= 4; ++id) {
    state.running.push_back(Drafting(SequenceId{id}, 6, 1.0));
  }

  const StepDecision decision = DecideStep(state, {.max_batch_rows = 12});

  EXPECT_THAT(decision.slices, SizeIs(4));
  EXPECT_EQ(RowsOf(decision, kA), 7);
  EXPECT_EQ(RowsOf(decision, kB), 1);
}

TEST(DraftTest, NoMoreThanTheReaderCanTake) {
  ReaderState reader = FreeReader();
  reader.token_room = 3;
  reader.token_capacity = 4;
  RunningChoice choice = Drafting(kA, 6, 1.0);
  StepState state{
      .running = {choice}, .readers = {reader}, .costs = FewRowsCost(0.1)};
  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 3);

  state.readers[0] = FreeReader();
  state.readers[0].ring_capacity = state.readers[0].ring_room = 45;
  state.running[0].ring_cost = 10;
  state.running[0].captures_token = state.running[0].captures_drafts = true;
  EXPECT_EQ(RowsOf(DecideStep(state, {}), kA), 4);
}

TEST(StepTest, APausedReaderHoldsUpOnlyItsOwnSequences) {
  ReaderState full = FreeReader();
  full.token_room = 0;
  const StepState state{.running = {Decoding(kA, 0), Decoding(kB, 1)},
                        .readers = {full, FreeReader()}};

  const StepDecision decision = DecideStep(state, {});

  EXPECT_THAT(decision.paused, ElementsAre(kA));
  ASSERT_THAT(decision.slices, SizeIs(1));
  EXPECT_EQ(decision.slices[0].id, kB);
}

TEST(StepTest, ChoicesOfOneRequestShareItsRoom) {
  ReaderState reader = FreeReader();
  reader.token_room = 1;
  const StepState state{.running = {Decoding(kA), Decoding(kB)},
                        .readers = {reader}};

  const StepDecision decision = DecideStep(state, {});

  EXPECT_THAT(decision.slices, SizeIs(1));
  EXPECT_THAT(decision.paused, ElementsAre(kB));
}

// Every second of 100 prompt rows is captured, at 10 bytes each.
class CapturingStepTest : public ::testing::Test {
 protected:
  CapturingStepTest() {
    for (int i = 0; i <= 100; ++i) captured_rows_.push_back(i / 2);
    choice_.ring_cost = 10;
    choice_.captured_rows = captured_rows_;
  }

  StepDecision Decide(SlowReaderPolicy policy, int64_t ring_room) {
    ReaderState reader = FreeReader();
    reader.policy = policy;
    reader.ring_room = ring_room;
    reader.ring_capacity = 200;
    return DecideStep({.running = {choice_}, .readers = {reader}}, {});
  }

  std::vector<int32_t> captured_rows_;
  RunningChoice choice_ = Prefilling(kA, 100);
};

TEST_F(CapturingStepTest, PromptChunksFitTheRing) {
  const StepDecision decision =
      Decide(SlowReaderPolicy::kPauseSequence, /*ring_room=*/200);

  EXPECT_EQ(RowsOf(decision, kA), 41);  // 20 captured rows
}

TEST_F(CapturingStepTest, PausesUntilHalfOfTheRingIsFree) {
  EXPECT_THAT(Decide(SlowReaderPolicy::kPauseSequence, 99).paused,
              ElementsAre(kA));
  EXPECT_EQ(RowsOf(Decide(SlowReaderPolicy::kPauseSequence, 100), kA), 21);
}

TEST_F(CapturingStepTest, RunsWhatFitsWhenLittleIsLeft) {
  choice_.prompt_rows = 3;
  choice_.captured_rows = std::span(captured_rows_).last(4);

  EXPECT_EQ(RowsOf(Decide(SlowReaderPolicy::kPauseSequence, 20), kA), 3);
}

TEST_F(CapturingStepTest, DropsAWholeStepOrNothing) {
  const StepDecision full = Decide(SlowReaderPolicy::kDropWithGaps, 99);
  ASSERT_THAT(full.slices, SizeIs(1));
  EXPECT_TRUE(full.slices[0].drop_rows);

  const StepDecision roomy = Decide(SlowReaderPolicy::kDropWithGaps, 100);
  ASSERT_THAT(roomy.slices, SizeIs(1));
  EXPECT_FALSE(roomy.slices[0].drop_rows);
}

TEST_F(CapturingStepTest, EndsASlowReaderThatAskedForIt) {
  const StepDecision decision = Decide(SlowReaderPolicy::kCancel, 99);

  EXPECT_THAT(decision.slices, IsEmpty());
  EXPECT_THAT(decision.overrun, ElementsAre(kA));
}

TEST_F(CapturingStepTest, ADecodeRowNeedsRoomOnlyWhenItIsCaptured) {
  choice_.prompt_rows = 0;
  choice_.captures_token = true;
  EXPECT_THAT(Decide(SlowReaderPolicy::kPauseSequence, 9).paused,
              ElementsAre(kA));
  choice_.captures_token = false;
  EXPECT_EQ(RowsOf(Decide(SlowReaderPolicy::kPauseSequence, 9), kA), 1);
}

TEST(StepTest, PromptLogprobsFitTheTokenQueue) {
  ReaderState reader = FreeReader();
  reader.token_room = 40;
  reader.token_capacity = 64;
  RunningChoice choice = Prefilling(kA, 100);
  choice.prompt_events = true;

  const StepDecision decision =
      DecideStep({.running = {choice}, .readers = {reader}}, {});

  EXPECT_EQ(RowsOf(decision, kA), 40);
}

// A little world that the two decisions drive: requests with a prompt and an
// answer, blocks, slow readers. Checks every promise at every step.
class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed) {}

  void Run() {
    for (int step = 0; step < 20000; ++step) {
      if (step < 1000 && Chance(15)) Arrive();
      Admit();
      Step();
      for (auto& [id, sequence] : running_) {
        if (Chance(50)) sequence.token_room = kTokenCapacity;
      }
      if (step >= 1000 && idle()) break;
    }
  }

  int finished() const { return finished_; }
  int suspensions() const { return suspensions_; }
  int arrived() const { return static_cast<int>(next_id_) - 1; }
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  static constexpr int64_t kBlocks = 64;
  static constexpr int64_t kTokenCapacity = 8;
  struct Sequence {
    WaitingChoice waiting;
    int64_t prompt = 0;
    int64_t answer = 0;
    int64_t token_room = kTokenCapacity;
    int64_t computed = 0;  // rows, ever
    int64_t replay = 0;    // of them without keys and values
  };

  bool Chance(int percent) { return Draw(0, 99) < percent; }
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  void Arrive() {
    const SequenceId id{next_id_++};
    Sequence sequence{.waiting = {.id = id,
                                  .priority = static_cast<int32_t>(Draw(0, 2)),
                                  .order = static_cast<uint64_t>(id)},
                      .prompt = Draw(1, 400),
                      .answer = Draw(1, 100)};
    sequence.waiting.blocks = (sequence.prompt + sequence.answer + 15) / 16;
    waiting_[id] = sequence;
  }

  void Admit() {
    while (true) {
      const AdmissionDecision decision = AdmitOnce();
      if (decision.suspend.empty()) return;
      for (const SequenceId id : decision.suspend) Suspend(id);
      const size_t waiting = waiting_.size();
      AdmitOnce();
      EXPECT_LT(waiting_.size(), waiting) << "somebody gave way in vain";
    }
  }

  void Suspend(SequenceId id) {
    Sequence sequence = running_.at(id);
    used_blocks_ -= sequence.waiting.blocks;
    sequence.replay = sequence.computed;
    waiting_[id] = sequence;
    running_.erase(id);
    ++suspensions_;
  }

  AdmissionDecision AdmitOnce() {
    AdmissionState state{.free_blocks = kBlocks - used_blocks_,
                         .running = static_cast<int64_t>(running_.size())};
    for (const auto& [id, sequence] : waiting_) {
      state.waiting.push_back(sequence.waiting);
    }
    for (const auto& [id, sequence] : running_) {
      state.admitted.push_back({.id = id,
                                .priority = sequence.waiting.priority,
                                .order = sequence.waiting.order,
                                .blocks = sequence.waiting.blocks});
    }
    AdmissionDecision decision = DecideAdmission(state, limits_);
    for (const SequenceId id : decision.admit) {
      const Sequence sequence = waiting_.at(id);
      for (const auto& [other, passed] : waiting_) {
        EXPECT_FALSE(passed.waiting.priority == sequence.waiting.priority &&
                     passed.waiting.order < sequence.waiting.order)
            << "overtook an earlier one of its own priority";
        EXPECT_LE(passed.waiting.priority, sequence.waiting.priority);
      }
      used_blocks_ += sequence.waiting.blocks;
      running_[id] = sequence;
      waiting_.erase(id);
    }
    EXPECT_LE(used_blocks_, kBlocks);
    EXPECT_LE(static_cast<int64_t>(running_.size()), limits_.max_num_seqs);
    for (const SequenceId id : decision.suspend) {
      EXPECT_TRUE(std::any_of(waiting_.begin(), waiting_.end(),
                              [&](const auto& waiting) {
                                return waiting.second.waiting.priority >
                                       running_.at(id).waiting.priority;
                              }));
    }
    return decision;
  }

  void Step() {
    StepState state{.costs = RowsCost(absl::Milliseconds(1))};
    int64_t could_decode = 0;
    for (const auto& [id, sequence] : running_) {
      state.running.push_back({.id = id,
                               .priority = sequence.waiting.priority,
                               .order = sequence.waiting.order,
                               .reader = state.readers.size(),
                               .replay_rows = sequence.replay,
                               .prompt_rows = sequence.prompt});
      state.readers.push_back({.token_room = sequence.token_room,
                               .token_capacity = kTokenCapacity});
      if (sequence.prompt == 0 && sequence.replay == 0 &&
          sequence.token_room > 0) {
        ++could_decode;
      }
    }
    const StepDecision decision = DecideStep(state, limits_);
    int64_t decoded = 0;
    int64_t prompt_rows = 0;
    for (const StepDecision::Slice& slice : decision.slices) {
      Sequence& sequence = running_.at(slice.id);
      ASSERT_GT(slice.num_rows, 0);
      const int64_t replayed = std::min(sequence.replay, slice.num_rows);
      const int64_t rows = slice.num_rows - replayed;
      sequence.replay -= replayed;
      sequence.computed += rows;
      if (sequence.prompt > 0 || replayed > 0) {
        prompt_rows += slice.num_rows;
        sequence.prompt -= std::min(sequence.prompt, rows);
        if (sequence.prompt > 0 || rows == 0) continue;
      } else {
        ++decoded;
      }
      --sequence.token_room;
      ASSERT_GE(sequence.token_room, 0);
      if (--sequence.answer == 0) Finish(slice.id);
    }
    EXPECT_EQ(decoded, could_decode) << "every step feeds every ready token";
    EXPECT_LE(decoded + prompt_rows, limits_.max_batch_rows);
    if (decoded > 0) {
      EXPECT_LE(prompt_rows, 50) << "the stall is bounded";
    }
  }

  void Finish(SequenceId id) {
    used_blocks_ -= running_.at(id).waiting.blocks;
    running_.erase(id);
    ++finished_;
  }

  const SchedulerLimits limits_{.max_batch_rows = 128,
                                .max_num_seqs = 8,
                                .max_decode_stall = absl::Milliseconds(50)};
  std::mt19937 random_;
  std::map<SequenceId, Sequence> waiting_;
  std::map<SequenceId, Sequence> running_;
  int64_t used_blocks_ = 0;
  uint64_t next_id_ = 1;
  int finished_ = 0;
  int suspensions_ = 0;
};

TEST(SchedulerSimulationTest, EveryRequestEndsAndEveryPromiseHolds) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed);
    simulation.Run();

    EXPECT_GT(simulation.arrived(), 100);
    EXPECT_GT(simulation.suspensions(), 0);
    EXPECT_TRUE(simulation.idle());
    EXPECT_EQ(simulation.finished(), simulation.arrived());
  }
}

}  // namespace
}  // namespace headrace
