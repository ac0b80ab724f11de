#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/crc/crc32c.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using GenerateTest = ServerFixture;
using Event = v1::GenerateResponse;

TEST_F(GenerateTest, EventsComeInOrder) {
  Start();
  v1::GenerateRequest request = Text("hello", 4);
  CaptureResidPost(request);
  request.mutable_logprobs()->set_prompt(true);
  request.set_client_request_id("mine");

  const Answer answer = Generate(request);

  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const std::vector<Event>& events = answer.events;
  ASSERT_GE(events.size(), 4u);
  EXPECT_TRUE(events.front().has_header());
  EXPECT_EQ(events.front().header().client_request_id(), "mine");
  EXPECT_FALSE(events.front().header().request_id().empty());
  EXPECT_TRUE(events[events.size() - 2].has_choice_end());
  EXPECT_TRUE(events.back().has_end());
  int tokens = 0;
  int prompt_logprobs = 0;
  uint64_t rows = 0;
  uint64_t next_chunk = 0;
  for (const Event& event : events) {
    if (event.has_token()) {
      EXPECT_EQ(event.token().index(), static_cast<uint32_t>(tokens++));
      EXPECT_TRUE(event.token().has_logprob());
    }
    if (event.has_prompt_logprobs()) ++prompt_logprobs;
    if (!event.has_activations()) continue;
    const v1::ActivationChunk& chunk = event.activations();
    EXPECT_EQ(chunk.sequence_number(), next_chunk++);
    EXPECT_EQ(chunk.crc32c(),
              static_cast<uint32_t>(absl::ComputeCrc32c(chunk.data())));
    EXPECT_EQ(chunk.data().size(), chunk.row_count() * chunk.width() * 4);
    EXPECT_EQ(chunk.positions_size(), static_cast<int>(chunk.row_count()));
    rows += chunk.row_count();
  }
  EXPECT_EQ(tokens, 4);
  EXPECT_EQ(prompt_logprobs, 4);
  EXPECT_EQ(rows, 2u * (5 + 3));
  EXPECT_EQ(rows, events.front().header().activation_rows_expected());
  EXPECT_EQ(events.back().end().rows(0).rows(), rows);
  EXPECT_EQ(events.back().end().usage().generated_tokens(), 4u);
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(GenerateTest, RowsAreTheEnginesBits) {
  Start();
  v1::GenerateRequest request = Text("hello", 1);
  CaptureResidPost(request);

  const Answer answer = Generate(request);

  int chunks = 0;
  for (const Event& event : answer.events) {
    if (!event.has_activations()) continue;
    ++chunks;
    const v1::ActivationChunk& chunk = event.activations();
    ASSERT_EQ(chunk.row_count(), 5u);
    for (uint32_t row = 0; row < 5; ++row) {
      float value = 0;
      std::memcpy(&value, chunk.data().data() + (row * chunk.width() + 3) * 4,
                  4);
      EXPECT_EQ(value,
                FakeRowValue(HookPoint::kResidPost,
                             static_cast<int32_t>(chunk.layer()), row, 3));
    }
  }
  EXPECT_EQ(chunks, 2);
}

TEST_F(GenerateTest, TextIsWholeCharactersAndPiecesAreExactBytes) {
  Start();
  const std::string euro = "\xE2\x82\xAC";
  engine_->next_token = [&](std::span<const int32_t> tokens,
                            const SequenceOptions&) {
    return static_cast<unsigned char>(euro[(tokens.size() - 1) % 3]);
  };

  const Answer answer = Generate(Text("x", 7));

  EXPECT_EQ(answer.text(), euro + euro + "\uFFFD");
  EXPECT_EQ(answer.events[1].token().piece(), "\xE2");
  EXPECT_EQ(answer.events[1].token().text(), "");
}

TEST_F(GenerateTest, SeveralChoicesEachEnd) {
  Start();
  v1::GenerateRequest request = Text("hello", 3);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_n(3);

  const Answer answer = Generate(request);

  ASSERT_TRUE(answer.status.ok());
  std::vector<std::string> texts(3);
  std::vector<uint32_t> ends;
  for (const Event& event : answer.events) {
    if (event.has_token()) {
      texts[event.token().choice()] += event.token().text();
    }
    if (event.has_choice_end()) ends.push_back(event.choice_end().choice());
  }
  EXPECT_EQ(ends, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_NE(texts[1], texts[2]);
}

TEST_F(GenerateTest, EveryBadFieldIsInTheDetails) {
  Start();
  v1::GenerateRequest request = Text("", 3);
  request.mutable_sampling()->set_top_p(2);

  const Answer answer = Generate(request);

  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto details = DetailsOf<google::rpc::BadRequest>(answer.status);
  ASSERT_THAT(details, SizeIs(1));
  ASSERT_EQ(details[0].field_violations_size(), 2);
  EXPECT_EQ(details[0].field_violations(0).field(), "prompt");
  EXPECT_EQ(details[0].field_violations(1).field(), "sampling.top_p");
  EXPECT_THAT(details[0].field_violations(1).description(), HasSubstr("2"));
}

TEST_F(GenerateTest, ThousandsOfViolationsStillArrive) {
  Start();
  v1::GenerateRequest request;
  for (int i = 0; i < 100'000; ++i) request.mutable_tokens()->add_ids(~0u);

  const Answer answer = Generate(request);

  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
      << answer.status.error_message();
  EXPECT_THAT(DetailsOf<google::rpc::BadRequest>(answer.status), SizeIs(1));
}

TEST_F(GenerateTest, IsUnavailableWhileTheModelIsLoading) {
  Open();

  const Answer answer = Generate(Text("hello", 3));

  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(DetailsOf<google::rpc::RetryInfo>(answer.status), SizeIs(1));
}

TEST_F(GenerateTest, AFullQueueIsRefusedWithARetryDelay) {
  Start({.max_num_seqs = 1, .max_queue = 1});
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  std::thread running([&] { Generate(Text("running", 2)); });
  EXPECT_TRUE(Eventually([this] { return engine_->opened() == 1; }));
  std::thread queued([&] { Generate(Text("queued", 2)); });
  EXPECT_TRUE(
      Eventually([this] { return server_->stats().queued_requests == 1; }));

  const Answer refused = Generate(Text("refused", 2));

  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(DetailsOf<google::rpc::RetryInfo>(refused.status), SizeIs(1));
  release.Notify();
  running.join();
  queued.join();
}

// Work goes on after the client has gone (ggml-org/llama.cpp#24496, #13262).
TEST_F(GenerateTest, CancellingFreesEverything) {
  Start();
  v1::GenerateRequest request = Text("hello", 400);
  CaptureResidPost(request);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  Event event;
  ASSERT_TRUE(reader->Read(&event));

  context.TryCancel();

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Generate(Text("again", 3)).status.ok());
}

TEST_F(GenerateTest, DisconnectingFreesEverything) {
  Start();
  // A step takes its time, as in life: 400 of them outlast a lost connection.
  engine_->on_step = [&](const Batch&) {
    absl::SleepFor(absl::Milliseconds(5));
  };
  {
    auto context = std::make_unique<grpc::ClientContext>();
    auto reader = stub_->Generate(context.get(), Text("hello", 400));
    Event event;
    ASSERT_TRUE(reader->Read(&event));
    context->TryCancel();
    reader.reset();
    context.reset();
    stub_.reset();
    models_.reset();
    channel_.reset();
  }

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  EXPECT_LT(engine_->steps().size(), 400u);
}

TEST_F(GenerateTest, CancellingInTheQueueComputesNothing) {
  Start({.max_num_seqs = 1});
  // Steps take their time: the cancellation arrives long before the end.
  engine_->on_step = [&](const Batch&) {
    absl::SleepFor(absl::Milliseconds(5));
  };
  std::thread running([&] { Generate(Text("running", 200)); });
  EXPECT_TRUE(Eventually([this] { return engine_->opened() == 1; }));
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Text("queued", 2));
  EXPECT_TRUE(
      Eventually([this] { return server_->stats().queued_requests == 1; }));

  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  running.join();

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  EXPECT_EQ(engine_->opened(), 1);
}

TEST_F(GenerateTest, DeadlinesAreKeptInTheQueueAndWhileRunning) {
  Start();
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  grpc::ClientContext context;
  context.set_deadline(
      absl::ToChronoTime(absl::Now() + absl::Milliseconds(50)));
  const auto reader = stub_->Generate(&context, Text("hello", 400));
  Event event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  release.Notify();

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

// A slow reader: bounded memory, and nobody else notices.
TEST_F(GenerateTest, ASlowReaderIsBoundedAndHoldsUpNobodyElse) {
  constexpr int64_t kRing = 256 << 10;
  Start({.max_capture_bytes = kRing},
        {.total_blocks = 2000, .context_length = 8000, .hidden_size = 1024});
  v1::GenerateRequest request = Text(std::string(1000, 's'), 2000);
  CaptureResidPost(request);
  grpc::ClientContext context;
  const auto slow = stub_->Generate(&context, request);
  EXPECT_TRUE(
      Eventually([this] { return server_->stats().paused_sequences == 1; }));

  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Generate(Text("quick", 50)).text().size(), 50u);
  }
  EXPECT_LE(server_->stats().ring_bytes, kRing);

  Event event;
  uint64_t rows = 0;
  while (slow->Read(&event)) {
    if (event.has_activations()) rows += event.activations().row_count();
  }
  EXPECT_TRUE(slow->Finish().ok());
  EXPECT_EQ(rows, 2u * (1000 + 1999));
  EXPECT_EQ(event.end().rows(0).rows(), rows);
  EXPECT_GT(event.end().timings().stalled(), 0);
}

TEST_F(GenerateTest, NonFiniteLogitsEndOnlyTheirOwnCall) {
  Start();
  engine_->trouble = [](std::span<const int32_t> tokens) {
    return tokens[0] == 'b'
               ? absl::InternalError("logits at position 2 are not finite")
               : absl::OkStatus();
  };
  std::thread good(
      [&] { EXPECT_TRUE(Generate(Text("good", 50)).status.ok()); });

  const Answer bad = Generate(Text("bad", 50));

  EXPECT_EQ(bad.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(bad.status.error_message(), HasSubstr("not finite"));
  good.join();
}

// Cancel, disconnect and completion race in every order.
TEST_F(GenerateTest, ManyCallsThatEndAtAnyTimeLeaveNothing) {
  Start({.max_num_seqs = 4});
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([this, c] {
      for (int i = 0; i < 40; ++i) {
        v1::GenerateRequest request = Text("hello", 20);
        CaptureResidPost(request);
        grpc::ClientContext context;
        const auto reader = stub_->Generate(&context, request);
        Event event;
        for (int read = 0; read < (c * 40 + i) % 17; ++read) {
          if (!reader->Read(&event)) break;
        }
        context.TryCancel();
        reader->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  EXPECT_EQ(engine_->open_sequences(), 0);
}

}  // namespace
}  // namespace headrace
