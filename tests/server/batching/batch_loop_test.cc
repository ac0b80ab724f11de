#include "server/batching/batch_loop.h"

#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/retry_after.h"
#include "tests/server/batching/loop_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using BatchLoopTest = LoopFixture;

// The greedy continuation of `prompt`, computed here.
std::vector<int32_t> Expected(const std::string& prompt, int64_t count) {
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  const SequenceOptions greedy{.sampling = {.temperature = 0}};
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(FakeNextToken(tokens, greedy));
  }
  return {tokens.begin() + static_cast<int64_t>(prompt.size()), tokens.end()};
}

TEST_F(BatchLoopTest, GeneratesMaxTokensAndEnds) {
  Client client = Submit(MakeRequest("hello", 5));

  RunAll({&client});

  EXPECT_TRUE(client.received.started);
  EXPECT_EQ(client.received.TokensOf(0), Expected("hello", 5));
  ASSERT_THAT(client.received.choice_ends, SizeIs(1));
  EXPECT_EQ(client.received.choice_ends[0].reason, FinishReason::kMaxTokens);
  ASSERT_TRUE(client.received.end.has_value());
  EXPECT_EQ(client.received.end->prompt_tokens, 5);
  EXPECT_EQ(client.received.end->generated_tokens, 5);
  EXPECT_EQ(engine_->rows_computed(), 5 + 5 - 1)
      << "the last sampled token is not fed back";
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, MaxTokensZeroComputesOnlyThePrompt) {
  Request request = MakeRequest("hello", 0);
  request.sequence.logprobs = {.enabled = true, .prompt = true};
  Client client = Submit(request);

  RunAll({&client});

  EXPECT_THAT(client.received.tokens, IsEmpty());
  EXPECT_THAT(client.received.prompt_logprobs, SizeIs(4));
  EXPECT_EQ(client.received.choice_ends[0].reason, FinishReason::kMaxTokens);
  EXPECT_EQ(client.received.choice_ends[0].generated, 0);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, LogprobsTravelOnlyWhenAskedFor) {
  Request request = MakeRequest("hello", 2);
  Client without = Submit(request);
  request.sequence.logprobs = {.top_n = 3, .enabled = true};
  Client with = Submit(request);

  RunAll({&without, &with});

  EXPECT_FALSE(without.received.tokens[0].logprobs.has_value());
  ASSERT_TRUE(with.received.tokens[0].logprobs.has_value());
  EXPECT_THAT(with.received.tokens[0].logprobs->top, SizeIs(3));
}

TEST_F(BatchLoopTest, RequestsRunTogetherAndDoNotDisturbEachOther) {
  Client a = Submit(MakeRequest("first prompt", 7));
  Client b = Submit(MakeRequest("second", 3));
  Client c = Submit(MakeRequest("a third one", 20));

  RunAll({&a, &b, &c});

  EXPECT_EQ(a.received.TokensOf(0), Expected("first prompt", 7));
  EXPECT_EQ(b.received.TokensOf(0), Expected("second", 3));
  EXPECT_EQ(c.received.TokensOf(0), Expected("a third one", 20));
  EXPECT_THAT(engine_->steps(), SizeIs(20)) << "one step per token of c";
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, ALongPromptIsComputedInChunksBesideDecodeRows) {
  MakeLoop({.batcher = {.limits = {.max_batch_rows = 32}}});
  engine_->on_step = [this](const Batch&) { now_ += absl::Milliseconds(1); };
  Client talker = Submit(MakeRequest("x", 40));
  loop_->RunOnce();
  Client newcomer = Submit(MakeRequest(std::string(100, 'p'), 1));

  RunAll({&talker, &newcomer});

  int64_t mixed = 0;
  for (const Batch& batch : engine_->steps()) {
    int64_t rows = 0;
    for (const SequenceSlice& slice : batch.slices) rows += slice.num_rows;
    EXPECT_LE(rows, 32);
    if (batch.slices.size() == 2) ++mixed;
  }
  EXPECT_EQ(mixed, 4) << "16 prompt rows to measure one, then chunks of 31";
  EXPECT_THAT(engine_->steps(), SizeIs(40)) << "the talker missed no step";
}

TEST_F(BatchLoopTest, AdmitsOnlyWhatFitsForItsWholeLife) {
  MakeLoop({}, {.total_blocks = 4, .block_size = 16});
  Client a = Submit(MakeRequest(std::string(20, 'a'), 20));  // 3 blocks
  Client b = Submit(MakeRequest(std::string(20, 'b'), 20));
  loop_->RunOnce();
  EXPECT_EQ(loop_->stats().running_requests, 1);
  EXPECT_EQ(loop_->stats().queued_requests, 1);
  EXPECT_EQ(loop_->stats().kv_cache.used_blocks, 3);

  RunAll({&a, &b});

  EXPECT_TRUE(a.received.end.has_value());
  EXPECT_TRUE(b.received.end.has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, WhatCanNeverFitIsRefusedWithTheNumbers) {
  MakeLoop({}, {.total_blocks = 4, .block_size = 16});

  Client client = Submit(MakeRequest(std::string(60, 'a'), 20));
  Client next = Submit(MakeRequest("next", 5));
  RunAll({&client, &next});

  EXPECT_EQ(client.received.failure.code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(client.received.failure.message()),
              HasSubstr("80 positions of the KV cache; it has 64"));
  EXPECT_TRUE(next.received.end.has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, AFullQueueRefusesWithARetryDelay) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}, .max_queue = 2});
  Client running = Submit(MakeRequest("r", 30));
  loop_->RunOnce();
  Client first = Submit(MakeRequest("a", 1));
  Client second = Submit(MakeRequest("b", 1));

  const absl::StatusOr<Client> third = TrySubmit(MakeRequest("c", 1));

  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("limit is 2"));
  EXPECT_TRUE(RetryAfter(third.status()).has_value());
  EXPECT_EQ(loop_->stats().rejected_requests, 1);
  RunAll({&running, &first, &second});
  EXPECT_TRUE(second.received.end.has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, TheRetryDelayFollowsTheTimeOfService) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}, .max_queue = 1});
  engine_->on_step = [this](const Batch&) { now_ += absl::Seconds(2); };
  Client measured = Submit(MakeRequest("m", 3));
  RunAll({&measured});
  Client running = Submit(MakeRequest("r", 3));
  loop_->RunOnce();
  Client queued = Submit(MakeRequest("q", 3));

  const absl::StatusOr<Client> refused = TrySubmit(MakeRequest("c", 1));

  EXPECT_EQ(RetryAfter(refused.status()), absl::Seconds(6));
  RunAll({&running, &queued});
}

TEST_F(BatchLoopTest, AFloodOfOneTenantDoesNotDelayAnother) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  Request request = MakeRequest("r", 10);
  request.tenant = "flood";
  std::vector<Client> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(Submit(request));
  loop_->RunOnce();  // the first of them runs
  request.tenant = "guest";
  Client guest = Submit(request);

  while (!guest.Read().end.has_value()) ASSERT_TRUE(loop_->RunOnce());

  EXPECT_EQ(loop_->stats().queued_requests, 19) << "the guest was next";
  for (Client& client : flood) RunAll({&client});
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, AFullQueueMakesRoomForATenantThatHasLess) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}, .max_queue = 3});
  Request request = MakeRequest("r", 10);
  request.tenant = "flood";
  Client running = Submit(request);
  loop_->RunOnce();
  Client first = Submit(request);
  Client second = Submit(request);
  loop_->RunOnce();
  Client newest = Submit(request);
  EXPECT_FALSE(TrySubmit(request).ok()) << "the flood's own limit";
  request.tenant = "guest";

  Client guest = Submit(request);

  EXPECT_EQ(loop_->stats().queued_requests, 3) << "the queue stays bounded";
  RunAll({&running, &first, &second, &newest, &guest});
  EXPECT_TRUE(guest.received.end.has_value());
  EXPECT_TRUE(second.received.end.has_value());
  EXPECT_EQ(newest.received.failure.code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(newest.received.failure).has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, ARequestThatBeganIsNotDisplaced) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 2}}, .max_queue = 3});
  Request request = MakeRequest("r", 10);
  request.tenant = "flood";
  Client first = Submit(request);
  Client second = Submit(request);
  request.tenant = "late";
  request.deadline = now_ + absl::Seconds(1);
  Client late = Submit(request);
  now_ += absl::Seconds(2);
  // Comes while the queue is still full and just before both begin.
  Client guest;
  on_done_ = [&] {
    if (guest.stream != nullptr) return;
    request.tenant = "guest";
    request.deadline = absl::InfiniteFuture();
    guest = Submit(request);
  };

  RunAll({&first, &second});
  ASSERT_NE(guest.stream, nullptr);
  RunAll({&guest, &late});

  for (const Client* client : {&first, &second, &guest}) {
    EXPECT_TRUE(client->received.end.has_value()) << client->received.failure;
  }
  ExpectNothingLeft();
}

// What a client saw, but for what depends on the clock.
void ExpectSameStream(const Received& a, const Received& b) {
  EXPECT_EQ(a.TokensOf(0), b.TokensOf(0));
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].index, b.tokens[i].index);
    EXPECT_EQ(a.tokens[i].text, b.tokens[i].text);
  }
  EXPECT_EQ(a.prompt_logprobs.size(), b.prompt_logprobs.size());
  EXPECT_EQ(a.PositionsOf(HookPoint::kResidPost, 1),
            b.PositionsOf(HookPoint::kResidPost, 1));
  ASSERT_TRUE(a.end.has_value() && b.end.has_value());
  EXPECT_EQ(a.end->prompt_tokens, b.end->prompt_tokens);
  EXPECT_EQ(a.end->generated_tokens, b.end->generated_tokens);
  ASSERT_THAT(a.end->rows, SizeIs(b.end->rows.size()));
  EXPECT_EQ(a.end->rows[0].rows, b.end->rows[0].rows);
}

TEST_F(BatchLoopTest, AHigherPriorityTakesTheBlocksAndNothingIsLost) {
  const auto low_request = [this] {
    Request low = MakeRequest(std::string(20, 'l'), 20);  // 3 blocks
    low.sequence.logprobs = {.enabled = true, .prompt = true};
    CaptureResidPost(low);
    return low;
  };
  Client plain = Submit(low_request());
  RunAll({&plain});
  // Suspended in the middle of the prompt, at its end, and while it decodes.
  for (const int rounds : {1, 2, 3, 9}) {
    SCOPED_TRACE(rounds);
    MakeLoop({.batcher = {.limits = {.max_batch_rows = 12}}},
             {.total_blocks = 4, .block_size = 16});
    Client low = Submit(low_request());
    for (int i = 0; i < rounds; ++i) loop_->RunOnce();
    Request high_request = MakeRequest("high", 20);  // 2 blocks
    high_request.priority = 1;
    Client high = Submit(high_request);

    loop_->RunOnce();
    EXPECT_EQ(loop_->stats().suspended_sequences, 1);
    EXPECT_EQ(loop_->stats().running_sequences, 1);
    EXPECT_EQ(loop_->stats().kv_cache.used_blocks, 2);
    RunAll({&low, &high});

    ExpectSameStream(low.received, plain.received);
    EXPECT_EQ(high.received.TokensOf(0), Expected("high", 20));
    EXPECT_EQ(engine_->suspensions(), 1);
    EXPECT_GT(loop_->stats().recomputed_rows, 0);
    ExpectNothingLeft();
  }
}

TEST_F(BatchLoopTest, WithoutPreemptionAHigherPriorityWaits) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1, .preemption = false}}});
  Client low = Submit(MakeRequest("low", 20));
  loop_->RunOnce();
  Request request = MakeRequest("high", 2);
  request.priority = 1;
  Client high = Submit(request);

  RunAll({&low, &high});

  EXPECT_EQ(engine_->suspensions(), 0);
  EXPECT_TRUE(high.received.end.has_value());
}

TEST_F(BatchLoopTest, SuspendedRequestsCanBeCancelledAndRunOutOfTime) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 2}}});
  Request request = MakeRequest("cancelled", 20);
  Client cancelled = Submit(request);
  request = MakeRequest("late", 20);
  request.deadline = now_ + absl::Seconds(5);
  Client late = Submit(request);
  loop_->RunOnce();
  request = MakeRequest("limited", 20);
  request.priority = 1;
  request.stop.time_limit = absl::Seconds(5);
  Client limited = Submit(request);
  Client other = Submit(request);
  loop_->RunOnce();
  request = MakeRequest("high", 20);
  request.priority = 2;
  Client high = Submit(request);
  Client highest = Submit(request);
  loop_->RunOnce();
  EXPECT_EQ(loop_->stats().suspended_sequences, 4);

  loop_->Cancel(cancelled.id);
  now_ += absl::Seconds(6);
  RunAll({&cancelled, &late, &limited, &other, &high, &highest});

  EXPECT_EQ(cancelled.received.failure.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.received.failure.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(limited.received.choice_ends[0].reason, FinishReason::kTimeLimit);
  EXPECT_EQ(highest.received.TokensOf(0), Expected("high", 20));
  ExpectNothingLeft();
}

// A model that repeats itself: what came five tokens before, but for some.
int32_t Repeating(std::span<const int32_t> tokens, const SequenceOptions&) {
  if (tokens.size() < 5) return 'a';
  return tokens.size() % 11 == 0 ? 'z' : tokens[tokens.size() - 5];
}

class SpeculationTest : public LoopFixture {
 protected:
  void MakeRepeatingLoop(int64_t max_drafts) {
    MakeLoop({.batcher = {.max_drafts = max_drafts}});
    engine_->next_token = Repeating;
    engine_->on_step = [this](const Batch& batch) {
      int64_t rows = 0;
      for (const SequenceSlice& slice : batch.slices) {
        rows += slice.num_rows + std::ssize(slice.drafts);
      }
      now_ += absl::Milliseconds(20) + rows * row_time_;
    };
  }

  // The streams of one request without and with drafts.
  std::pair<Client, Client> RunBoth(
      const std::function<Request()>& make_request) {
    std::pair<Client, Client> clients;
    MakeRepeatingLoop(0);
    clients.first = Submit(make_request());
    RunAll({&clients.first});
    EXPECT_EQ(loop_->stats().drafted_tokens, 0);
    plain_steps_ = loop_->stats().steps;
    ExpectNothingLeft();
    MakeRepeatingLoop(4);
    clients.second = Submit(make_request());
    RunAll({&clients.second});
    ExpectNothingLeft();
    return clients;
  }

  absl::Duration row_time_ = absl::Milliseconds(1);
  int64_t plain_steps_ = 0;
};

TEST_F(SpeculationTest, TheSameStreamInFewerSteps) {
  const auto [plain, drafted] = RunBoth([this] {
    Request request = MakeRequest("abcdeabcde", 50);
    CaptureResidPost(request);
    return request;
  });

  ExpectSameStream(drafted.received, plain.received);
  EXPECT_EQ(drafted.received.TokensOf(0).size(), 50u);
  const BatchStats stats = loop_->stats();
  EXPECT_LT(stats.steps, plain_steps_ / 2);
  EXPECT_GT(stats.accepted_tokens, 25);
  EXPECT_GT(stats.drafted_tokens, stats.accepted_tokens) << "z is a surprise";
  EXPECT_EQ(stats.generated_tokens, 50);
}

TEST_F(SpeculationTest, AStopStringEndsTheStreamWhereItWould) {
  for (const bool feed_last : {false, true}) {
    const auto [plain, drafted] = RunBoth([&] {
      Request request = MakeRequest("abcdeabcde", 50);
      request.stop.stop_strings = {"zb"};
      request.delivery.feed_last_token = feed_last;
      return request;
    });

    EXPECT_EQ(drafted.received.TokensOf(0), plain.received.TokensOf(0));
    ASSERT_THAT(drafted.received.choice_ends, SizeIs(1));
    EXPECT_EQ(drafted.received.choice_ends[0].reason,
              plain.received.choice_ends[0].reason);
    EXPECT_EQ(drafted.received.choice_ends[0].text,
              plain.received.choice_ends[0].text);
  }
}

TEST_F(SpeculationTest, AWatchedChoiceIsNotComputedPastAStopString) {
  const auto [plain, drafted] = RunBoth([this] {
    Request request = MakeRequest("abcdeabcde", 50);
    CaptureResidPost(request);
    request.stop.stop_strings = {"nothing"};
    return request;
  });

  ExpectSameStream(drafted.received, plain.received);
  EXPECT_EQ(loop_->stats().drafted_tokens, 0);
}

TEST_F(SpeculationTest, AnEndTokenAndTheLastTokensRowAreTheSame) {
  const auto [plain, drafted] = RunBoth([this] {
    Request request = MakeRequest("abcdeabcde", 50);
    request.sequence.max_rows = 60;
    CaptureResidPost(request);
    request.delivery.feed_last_token = true;
    request.sequence.end_token_ids = {'z'};
    request.sequence.min_tokens = 30;
    return request;
  });

  ExpectSameStream(drafted.received, plain.received);
  EXPECT_EQ(drafted.received.choice_ends[0].reason, FinishReason::kStopToken);
  EXPECT_GT(loop_->stats().accepted_tokens, 10);
}

TEST_F(SpeculationTest, WrongGuessesAreSoonGivenUp) {
  MakeRepeatingLoop(4);
  // The same three tokens again and again, and then something new.
  engine_->next_token = [](std::span<const int32_t> tokens,
                           const SequenceOptions&) -> int32_t {
    const size_t i = tokens.size() % 4;
    return i < 3 ? static_cast<int32_t>('a' + i)
                 : static_cast<int32_t>('d' + tokens.size() / 4 % 20);
  };
  row_time_ = absl::Milliseconds(20);
  Client client = Submit(MakeRequest("dabc", 75));  // before d comes again
  RunAll({&client});

  EXPECT_GT(loop_->stats().drafted_tokens, 0);
  EXPECT_LT(loop_->stats().drafted_tokens, 12);
}

TEST_F(SpeculationTest, ASuspendedSequenceGuessesOnWhenItIsBack) {
  const auto make_request = [this] {
    Request request = MakeRequest("abcdeabcde", 50);
    CaptureResidPost(request);
    return request;
  };
  const auto [plain, drafted] = RunBoth(make_request);
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}, .max_drafts = 4}});
  engine_->next_token = Repeating;
  engine_->on_step = [this](const Batch&) { now_ += absl::Milliseconds(20); };
  Client low = Submit(make_request());
  for (int i = 0; i < 5; ++i) loop_->RunOnce();
  Request request = MakeRequest("high", 3);
  request.priority = 1;
  Client high = Submit(request);
  RunAll({&low, &high});

  EXPECT_EQ(engine_->suspensions(), 1);
  ExpectSameStream(low.received, plain.received);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, HigherPriorityIsAdmittedFirst) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  Request low = MakeRequest("low", 2);
  Request high = MakeRequest("high", 2);
  high.priority = 5;
  Client low_client = Submit(low);
  Client high_client = Submit(high);

  loop_->RunOnce();
  high_client.Read();
  low_client.Read();

  EXPECT_TRUE(high_client.received.started);
  EXPECT_FALSE(low_client.received.started);
  RunAll({&low_client, &high_client});
}

TEST_F(BatchLoopTest, ChoicesDifferAndShareThePrompt) {
  Request request = MakeRequest(std::string(40, 'p'), 4);
  request.num_choices = 3;
  request.sequence.sampling.temperature = 1;
  request.sequence.logprobs = {.enabled = true, .prompt = true};
  Client client = Submit(request);

  RunAll({&client});

  EXPECT_THAT(client.received.choice_ends, SizeIs(3));
  EXPECT_THAT(client.received.TokensOf(0), SizeIs(4));
  EXPECT_NE(client.received.TokensOf(0), client.received.TokensOf(1));
  EXPECT_NE(client.received.TokensOf(1), client.received.TokensOf(2));
  EXPECT_THAT(client.received.prompt_logprobs, SizeIs(39)) << "only once";
  EXPECT_EQ(client.received.end->generated_tokens, 12);
  // Choice 0 computes 40 rows; the others find two blocks of 16 in the cache.
  EXPECT_EQ(engine_->rows_computed(), 40 + 2 * 8 + 3 * 3);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, WithoutPrefixReuseOnlyTheChoicesShare) {
  Request request = MakeRequest(std::string(40, 'p'), 1);
  request.sequence.prefix_salt.reset();
  request.num_choices = 2;
  Client first = Submit(request);
  RunAll({&first});
  const int64_t rows = engine_->rows_computed();
  EXPECT_EQ(rows, 40 + 8);

  Client second = Submit(request);
  RunAll({&second});

  EXPECT_EQ(engine_->rows_computed(), 2 * rows);
}

TEST_F(BatchLoopTest, ARepeatedPromptIsCountedAsCached) {
  Client first = Submit(MakeRequest(std::string(40, 'p'), 1));
  RunAll({&first});
  Client second = Submit(MakeRequest(std::string(40, 'p'), 1));
  RunAll({&second});

  EXPECT_EQ(first.received.end->cached_tokens, 0);
  EXPECT_EQ(second.received.end->cached_tokens, 32);
}

TEST_F(BatchLoopTest, CapturedRowsAreThoseOfPromptAndFedTokens) {
  Request request = MakeRequest("hello", 3);
  CaptureResidPost(request);
  Client client = Submit(request);

  RunAll({&client});

  for (const int32_t layer : {0, 1}) {
    EXPECT_THAT(client.received.PositionsOf(HookPoint::kResidPost, layer),
                ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
  EXPECT_EQ(client.received.end->rows[0].rows, 14);
  EXPECT_EQ(loop_->stats().captured_rows, 14);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, TheLastTokenHasARowWhenAskedFor) {
  Request request = MakeRequest("hello", 3);
  request.delivery.feed_last_token = true;
  CaptureResidPost(request);
  Client client = Submit(request);

  RunAll({&client});

  EXPECT_THAT(client.received.PositionsOf(HookPoint::kResidPost, 0),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(client.received.TokensOf(0), SizeIs(3));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, PromptRowsOfSeveralChoicesComeOnce) {
  Request request = MakeRequest("hello", 2);
  request.num_choices = 2;
  CaptureResidPost(request);
  request.sequence.capture.checks = true;
  Client client = Submit(request);

  RunAll({&client});

  EXPECT_THAT(client.received.PositionsOf(HookPoint::kResidPost, 0),
              ElementsAre(0, 1, 2, 3, 4, 5, 5));
  EXPECT_EQ(client.received.end->checks->rows_checked, 5 + 2);
}

TEST_F(BatchLoopTest, ASlowReaderStopsOnlyItself) {
  Request request = MakeRequest(std::string(60, 's'), 30);
  CaptureResidPost(request, /*max_ring_bytes=*/1024);
  Client slow = Submit(request);
  Client other = Submit(MakeRequest("other", 30));

  RunAll({&other});

  EXPECT_TRUE(other.received.end.has_value());
  EXPECT_EQ(loop_->stats().paused_sequences, 1);
  EXPECT_LE(loop_->stats().ring_bytes, 1024);
  EXPECT_GT(loop_->stats().ring_bytes, 0);

  RunAll({&slow});

  EXPECT_EQ(slow.received.TokensOf(0), Expected(std::string(60, 's'), 30));
  EXPECT_THAT(slow.received.PositionsOf(HookPoint::kResidPost, 1), SizeIs(89));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, AReaderThatReadsOneEventAtATimeGetsEverything) {
  Request request = MakeRequest(std::string(60, 's'), 30);
  CaptureResidPost(request, /*max_ring_bytes=*/1024);
  Client slow = Submit(request);

  for (int round = 0; round < 2000; ++round) {
    loop_->RunOnce();
    if (std::optional<StreamEvent> event = slow.stream->Pop()) {
      slow.Take(*event);
    }
  }

  ASSERT_TRUE(slow.received.end.has_value());
  std::vector<int64_t> all(89);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(slow.received.PositionsOf(HookPoint::kResidPost, 0), all);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, TokensAloneAreBoundedToo) {
  Client lazy = Submit(MakeRequest("lazy", 200));

  RunAll({});

  EXPECT_EQ(lazy.stream->room().token_events, 0);
  EXPECT_EQ(loop_->stats().generated_tokens, kTokenEvents);
  now_ += absl::Seconds(3);
  RunAll({&lazy});
  EXPECT_THAT(lazy.received.tokens, SizeIs(200));
  EXPECT_EQ(lazy.received.end->timings.stalled, absl::Seconds(3));
}

TEST_F(BatchLoopTest, DroppedRowsAreListedAndTokensAreNot) {
  Request request = MakeRequest(std::string(60, 's'), 30);
  request.delivery.policy = SlowReaderPolicy::kDropWithGaps;
  CaptureResidPost(request, /*max_ring_bytes=*/1024);
  Client slow = Submit(request);

  for (int round = 0; round < 200; ++round) loop_->RunOnce();
  slow.Read();

  EXPECT_THAT(slow.received.tokens, SizeIs(30));
  ASSERT_TRUE(slow.received.end.has_value());
  std::vector<bool> seen(89);
  for (const int64_t p : slow.received.PositionsOf(HookPoint::kResidPost, 0)) {
    seen[p] = true;
  }
  for (const RowGap& gap : slow.received.end->gaps) {
    for (int64_t p = gap.first_position; p <= gap.last_position; ++p) {
      EXPECT_FALSE(seen[p]) << p;
      seen[p] = true;
    }
  }
  EXPECT_THAT(seen, ::testing::Each(true)) << "a row or a gap for each";
  EXPECT_GT(loop_->stats().dropped_rows, 0);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, ASlowReaderEndsWhenItsPolicySaysSo) {
  Request request = MakeRequest(std::string(60, 's'), 30);
  request.delivery.policy = SlowReaderPolicy::kCancel;
  CaptureResidPost(request, /*max_ring_bytes=*/1024);
  Client slow = Submit(request);

  for (int round = 0; round < 200; ++round) loop_->RunOnce();
  slow.Read();

  EXPECT_EQ(slow.received.failure.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(slow.received.failure.message()),
              HasSubstr("1024 bytes"));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancellingAQueuedRequestComputesNothing) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  Client running = Submit(MakeRequest("r", 5));
  loop_->RunOnce();
  Client queued = Submit(MakeRequest("queued", 5));

  loop_->Cancel(queued.id);
  RunAll({&running});

  EXPECT_EQ(engine_->opened(), 1);
  EXPECT_EQ(queued.Read().failure.code(), absl::StatusCode::kCancelled);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancellingDuringThePromptStopsBeforeTheNextStep) {
  MakeLoop({.batcher = {.limits = {.max_batch_rows = 64}}});
  Client client = Submit(MakeRequest(std::string(300, 'p'), 5));
  loop_->RunOnce();
  EXPECT_EQ(engine_->rows_computed(), 64);

  loop_->Cancel(client.id);
  loop_->RunOnce();

  EXPECT_EQ(engine_->rows_computed(), 64);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancellingDuringDecodeStopsBeforeTheNextStep) {
  Client client = Submit(MakeRequest("abc", 100));
  for (int i = 0; i < 10; ++i) loop_->RunOnce();

  loop_->Cancel(client.id);
  loop_->RunOnce();

  EXPECT_THAT(engine_->steps(), SizeIs(10));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancellingWhileTheReaderIsSlowFreesTheRing) {
  Request request = MakeRequest(std::string(60, 's'), 30);
  CaptureResidPost(request, /*max_ring_bytes=*/1024);
  Client slow = Submit(request);
  RunAll({});
  EXPECT_GT(slow.stream->ring_used_bytes(), 0);

  loop_->Cancel(slow.id);
  loop_->RunOnce();

  EXPECT_EQ(slow.stream->ring_used_bytes(), 0);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancellingEndsEveryChoice) {
  Request request = MakeRequest("abc", 100);
  request.num_choices = 4;
  Client client = Submit(request);
  for (int i = 0; i < 10; ++i) loop_->RunOnce();
  EXPECT_EQ(engine_->open_sequences(), 4);

  loop_->Cancel(client.id);

  ExpectNothingLeft();
}

// Dead requests are not computed (tensorflow/serving#1265).
TEST_F(BatchLoopTest, ADeadlineThatPassesInTheQueueComputesNothing) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  Client running = Submit(MakeRequest("r", 20));
  loop_->RunOnce();
  std::vector<Client> dead;
  for (int i = 0; i < 50; ++i) {
    Request request = MakeRequest("dead", 5);
    request.deadline = now_ + absl::Milliseconds(i % 2 == 0 ? 1 : 5);
    dead.push_back(Submit(request));
  }
  now_ += absl::Milliseconds(10);
  Client normal = Submit(MakeRequest("normal", 5));

  RunAll({&running, &normal});

  for (Client& client : dead) {
    EXPECT_EQ(client.Read().failure.code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(engine_->opened(), 2);
  EXPECT_EQ(normal.received.TokensOf(0), Expected("normal", 5));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, ADeadlineInThePastIsRefusedAtOnce) {
  Request request = MakeRequest("late", 5);
  request.deadline = now_ - absl::Seconds(1);

  EXPECT_EQ(TrySubmit(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BatchLoopTest, ADeadlineDuringDecodeEndsTheRequest) {
  Request request = MakeRequest("abc", 100);
  request.deadline = now_ + absl::Seconds(1);
  Client client = Submit(request);
  for (int i = 0; i < 5; ++i) loop_->RunOnce();
  now_ += absl::Seconds(2);

  loop_->RunOnce();

  EXPECT_THAT(engine_->steps(), SizeIs(5));
  EXPECT_EQ(client.Read().failure.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(client.received.failure.message()),
              HasSubstr("5 generated tokens"));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, TheTimeLimitEndsWithWhatThereIs) {
  Request request = MakeRequest("abc", 100);
  request.stop.time_limit = absl::Seconds(1);
  request.stop.stop_strings = {"zzzz"};
  Client client = Submit(request);
  for (int i = 0; i < 5; ++i) loop_->RunOnce();
  now_ += absl::Seconds(2);

  RunAll({&client});

  EXPECT_THAT(client.received.tokens, SizeIs(5));
  ASSERT_THAT(client.received.choice_ends, SizeIs(1));
  EXPECT_EQ(client.received.choice_ends[0].reason, FinishReason::kTimeLimit);
  EXPECT_TRUE(client.received.end.has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, NonFiniteLogitsEndOnlyTheirOwnRequest) {
  engine_->trouble = [](std::span<const int32_t> tokens) {
    return tokens[0] == 'b' && tokens.size() > 8
               ? absl::InternalError("logits at position 8 are not finite")
               : absl::OkStatus();
  };
  Client good = Submit(MakeRequest("good", 20));
  Client bad = Submit(MakeRequest("bad", 20));

  RunAll({&good, &bad});

  EXPECT_EQ(good.received.TokensOf(0), Expected("good", 20));
  EXPECT_EQ(bad.received.failure.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(bad.received.tokens, SizeIs(6)) << "those before the trouble";
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, ARefusedBatchEndsItsRequestsAndTheLoopGoesOn) {
  Client first = Submit(MakeRequest("first", 5));
  engine_->refuse_step = absl::InvalidArgumentError("broken rule");
  RunAll({&first});
  Client second = Submit(MakeRequest("second", 5));
  RunAll({&second});

  EXPECT_EQ(first.received.failure.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(second.received.TokensOf(0), Expected("second", 5));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, DrainingEndsTheQueueAndLetsTheRestFinish) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  Client running = Submit(MakeRequest("running", 5));
  loop_->RunOnce();
  Client queued = Submit(MakeRequest("queued", 5));

  loop_->BeginDrain();
  const absl::StatusOr<Client> late = TrySubmit(MakeRequest("late", 5));
  RunAll({&running, &queued});

  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued.received.failure.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(running.received.TokensOf(0), Expected("running", 5));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, CancelAllEndsEverything) {
  Client a = Submit(MakeRequest("a", 50));
  Client b = Submit(MakeRequest("b", 50));
  loop_->RunOnce();

  loop_->CancelAll();
  RunAll({&a, &b});

  EXPECT_EQ(a.received.failure.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(b.received.failure.code(), absl::StatusCode::kUnavailable);
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, TimingsAddUp) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1}}});
  engine_->on_step = [this](const Batch&) { now_ += absl::Milliseconds(10); };
  Client first = Submit(MakeRequest("first", 5));
  Client second = Submit(MakeRequest("second", 3));

  RunAll({&first, &second});

  const RequestTimings& timings = second.received.end->timings;
  EXPECT_EQ(timings.queue, absl::Milliseconds(50));
  EXPECT_EQ(timings.prefill, absl::Milliseconds(10));
  EXPECT_EQ(timings.decode, absl::Milliseconds(20));
  ASSERT_THAT(records_, SizeIs(2));
  EXPECT_EQ(records_[1].total, absl::Milliseconds(80));
  EXPECT_EQ(records_[1].time_to_first_token, absl::Milliseconds(60));
}

TEST_F(BatchLoopTest, AnIdleLoopHasNothingToRun) {
  EXPECT_FALSE(loop_->RunOnce());
  EXPECT_EQ(loop_->StepTime(), absl::ZeroDuration());
  EXPECT_THAT(engine_->steps(), IsEmpty());
}

// Slow readers of requests that have ended fill the memory, though each of
// them is bounded.
TEST_F(BatchLoopTest, UnreadRowsOfEndedRequestsHoldUpThoseThatCapture) {
  Request capturing = MakeRequest("hello", 3);
  CaptureResidPost(capturing);
  const int64_t ring_bytes = capturing.layout.ring_bytes;
  MakeLoop({.batcher = {.limits = {.max_ring_bytes = ring_bytes}}});
  Client a = Submit(capturing);
  RunAll({});
  EXPECT_EQ(loop_->stats().running_requests, 0);
  EXPECT_GT(loop_->stats().ring_bytes, 0) << "it waits for its reader";

  Client b = Submit(capturing);
  Client text = Submit(MakeRequest("text", 3));
  RunAll({&b, &text});
  EXPECT_TRUE(text.received.end.has_value());
  EXPECT_FALSE(b.received.started);
  EXPECT_EQ(loop_->stats().queued_requests, 1);

  a.Read();
  RunAll({&b});
  EXPECT_TRUE(a.received.end.has_value());
  EXPECT_TRUE(b.received.end.has_value());
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, RowsThatNobodyReadsGiveWayToARequestThatWaits) {
  Request capturing = MakeRequest("hello", 3);
  CaptureResidPost(capturing);
  MakeLoop(
      {.batcher = {.limits = {.max_ring_bytes = capturing.layout.ring_bytes},
                   .max_reader_stall = absl::Seconds(60)}});
  Client a = Submit(capturing);
  RunAll({});
  now_ += absl::Seconds(1000);
  RunAll({});
  EXPECT_GT(loop_->stats().ring_bytes, 0) << "nobody waits for its place";
  a.stream->Pop();
  RunAll({});

  Client b = Submit(capturing);
  now_ += absl::Seconds(59);
  RunAll({&b});
  EXPECT_FALSE(b.received.started);
  now_ += absl::Seconds(1);
  RunAll({&b});

  EXPECT_TRUE(b.received.end.has_value());
  EXPECT_EQ(a.Read().failure.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(a.received.failure.message()), HasSubstr("for 1m"));
  ExpectNothingLeft();
}

TEST_F(BatchLoopTest, APausedSequenceGivesWayToARequestThatWaits) {
  MakeLoop({.batcher = {.limits = {.max_num_seqs = 1},
                        .max_reader_stall = absl::Seconds(60)}});
  Client slow = Submit(MakeRequest("slow", 2 * kTokenEvents));
  RunAll({});
  EXPECT_EQ(loop_->stats().paused_sequences, 1);
  now_ += absl::Seconds(1000);
  RunAll({});
  EXPECT_EQ(loop_->stats().paused_sequences, 1) << "nobody waits";

  Client other = Submit(MakeRequest("other", 3));
  RunAll({&other});

  EXPECT_TRUE(other.received.end.has_value());
  EXPECT_EQ(slow.Read().failure.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(slow.received.tokens, SizeIs(kTokenEvents))
      << "what was generated is delivered";
  ExpectNothingLeft();
}

}  // namespace
}  // namespace headrace
