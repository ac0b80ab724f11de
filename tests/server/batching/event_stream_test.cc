#include "server/batching/event_stream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::SizeIs;

constexpr HookPoint kHook = HookPoint::kEmbed;

CaptureLayout OneHook() {
  CapturePlan plan;
  plan.hooks.push_back({.hook = kHook, .layers = {-1}});
  const std::vector<HookPointState> hooks = {
      {.hook = kHook, .width = 4, .capturable = true}};
  return MakeCaptureLayout(plan, hooks, {}, {.chunk_bytes = 16}, 1 << 10);
}

class EventStreamTest : public ::testing::Test {
 protected:
  void AddRow(int64_t position) {
    const std::vector<float> values(4, 1.0f);
    stream_.AddRow(0, {.hook = kHook,
                       .layer = -1,
                       .phase = Phase::kGenerated,
                       .position = position,
                       .values = values});
  }

  int calls_ = 0;
  EventStream stream_{OneHook(), /*token_events=*/4, [this] { ++calls_; }};
};

TEST_F(EventStreamTest, TokensComeBeforeTensorsAndEndsLast) {
  stream_.Start();
  AddRow(0);
  stream_.Push(TokenEvent{.token = 5});
  stream_.Finish({ChoiceEndEvent{}}, EndEvent{});

  std::vector<size_t> kinds;
  while (std::optional<StreamEvent> event = stream_.Pop()) {
    kinds.push_back(event->index());
  }
  EXPECT_EQ(kinds, (std::vector<size_t>{StreamEvent(StartedEvent{}).index(),
                                        StreamEvent(TokenEvent{}).index(),
                                        StreamEvent(ActivationChunk{}).index(),
                                        StreamEvent(ChoiceEndEvent{}).index(),
                                        StreamEvent(EndEvent{}).index()}));
}

TEST_F(EventStreamTest, TheReaderIsCalledOnlyWhileItWaits) {
  stream_.Push(TokenEvent{});
  stream_.Publish();
  EXPECT_EQ(calls_, 0) << "it has not found the stream empty yet";

  EXPECT_TRUE(stream_.Pop().has_value());
  EXPECT_FALSE(stream_.Pop().has_value());
  stream_.Publish();
  EXPECT_EQ(calls_, 0) << "nothing to read";
  stream_.Push(TokenEvent{});
  stream_.Push(TokenEvent{});
  stream_.Publish();
  stream_.Publish();
  EXPECT_EQ(calls_, 1);
}

TEST_F(EventStreamTest, RoomShrinksAndGrows) {
  const EventStream::Room before = stream_.room();
  stream_.Push(TokenEvent{});
  AddRow(0);

  EXPECT_EQ(stream_.room().token_events, before.token_events - 1);
  EXPECT_EQ(stream_.room().ring_bytes,
            before.ring_bytes - 16 - kRowOverheadBytes);
  EXPECT_EQ(stream_.ring_used_bytes(), 16 + kRowOverheadBytes);

  while (stream_.Pop().has_value()) {
  }
  EXPECT_EQ(stream_.room().token_events, before.token_events);
  EXPECT_EQ(stream_.room().ring_bytes, before.ring_bytes);
}

TEST_F(EventStreamTest, TheWriterIsToldOfRoomOnce) {
  int told = 0;
  stream_.Push(TokenEvent{});
  stream_.Push(TokenEvent{});
  stream_.WatchRoom([&] { ++told; });

  stream_.Pop();
  stream_.Pop();

  EXPECT_EQ(told, 1);
}

TEST_F(EventStreamTest, EndSaysWhatWasDelivered) {
  AddRow(0);
  AddRow(1);
  stream_.Finish({}, EndEvent{.prompt_tokens = 3});

  std::optional<StreamEvent> last;
  while (std::optional<StreamEvent> event = stream_.Pop()) last = event;
  const EndEvent& end = std::get<EndEvent>(*last);
  EXPECT_EQ(end.prompt_tokens, 3);
  ASSERT_THAT(end.rows, SizeIs(1));
  EXPECT_EQ(end.rows[0].rows, 2);
}

TEST_F(EventStreamTest, AFailureDropsRowsButNotTokens) {
  stream_.Push(TokenEvent{});
  AddRow(0);
  stream_.Fail(absl::InternalError("broken"));

  EXPECT_EQ(stream_.ring_used_bytes(), 0);
  EXPECT_TRUE(std::holds_alternative<TokenEvent>(*stream_.Pop()));
  EXPECT_EQ(std::get<FailedEvent>(*stream_.Pop()).status.message(), "broken");
  EXPECT_FALSE(stream_.Pop().has_value());
}

TEST_F(EventStreamTest, AnAbandonedStreamHoldsNothing) {
  int told = 0;
  stream_.Push(TokenEvent{});
  AddRow(0);
  stream_.WatchRoom([&] { ++told; });

  stream_.Abandon();
  AddRow(1);
  stream_.Push(TokenEvent{});
  stream_.Finish({}, EndEvent{});

  EXPECT_EQ(told, 1);
  EXPECT_EQ(stream_.ring_used_bytes(), 0);
  EXPECT_FALSE(stream_.Pop().has_value());
}

}  // namespace
}  // namespace headrace
