// The loop on its own thread, with clients on theirs: what ThreadSanitizer
// should see.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/batching/batch_loop.h"
#include "tests/fakes/fake_engine.h"

namespace headrace {
namespace {

// Reads a stream on the calling thread, sleeping until it is called.
class BlockingReader {
 public:
  BlockingReader() = default;

  std::function<void()> on_events() {
    return [this] {
      const absl::MutexLock lock(&mutex_);
      called_ = true;
    };
  }

  StreamEvent Next(EventStream& stream) {
    while (true) {
      if (std::optional<StreamEvent> event = stream.Pop()) return *event;
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&called_));
      called_ = false;
    }
  }

 private:
  absl::Mutex mutex_;
  bool called_ ABSL_GUARDED_BY(mutex_) = false;
};

Request MakeRequest(const FakeEngine& engine, int64_t max_tokens) {
  Request request;
  request.sequence.prompt = {'p', 'q', 'r'};
  request.sequence.max_rows = 3 + max_tokens;
  request.sequence.rope = engine.model().rope;
  request.sequence.prefix_salt = 0;
  request.stop.max_tokens = max_tokens;
  request.sequence.capture.hooks = {
      {.hook = HookPoint::kResidPost, .layers = {0, 1}}};
  request.sequence.capture.rows.prompt.all = true;
  request.sequence.capture.rows.generated.all = true;
  request.layout =
      MakeCaptureLayout(request.sequence.capture, engine.hooks(), {},
                        request.delivery, /*max_ring_bytes=*/1024);
  return request;
}

TEST(BatchLoopThreadTest, ManyClientsReadOrCancel) {
  FakeEngine engine;
  BatchLoop loop(&engine, {.batcher = {.limits = {.max_num_seqs = 4}}});
  loop.Start();
  std::atomic<int> ended = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) {
        Request request = MakeRequest(engine, 20);
        BlockingReader reader;
        auto stream = std::make_shared<EventStream>(
            request.layout, /*token_events=*/4, reader.on_events());
        const absl::StatusOr<RequestId> id =
            loop.Submit({.request = std::move(request), .stream = stream});
        ASSERT_TRUE(id.ok()) << id.status();
        int tokens = 0;
        while (true) {
          const StreamEvent event = reader.Next(*stream);
          if (std::holds_alternative<TokenEvent>(event)) ++tokens;
          if (std::holds_alternative<EndEvent>(event) ||
              std::holds_alternative<FailedEvent>(event)) {
            break;
          }
          if (c % 2 == 1 && tokens == 5) loop.Cancel(*id);
        }
        if (c % 2 == 0) {
          EXPECT_EQ(tokens, 20);
        }
        ++ended;
      }
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(ended, 160);
  EXPECT_TRUE(loop.WaitUntilIdle(absl::Seconds(30)));
  EXPECT_EQ(loop.stats().kv_cache.used_blocks, 0);
}

TEST(BatchLoopThreadTest, StepTimeShowsAStepThatHangs) {
  FakeEngine engine;
  absl::Notification in_step;
  absl::Notification release;
  engine.on_step = [&](const Batch&) {
    if (!in_step.HasBeenNotified()) in_step.Notify();
    release.WaitForNotification();
  };
  BatchLoop loop(&engine, {});
  loop.Start();
  Request request = MakeRequest(engine, 1);
  auto stream = std::make_shared<EventStream>(request.layout, 4, nullptr);
  ASSERT_TRUE(
      loop.Submit({.request = std::move(request), .stream = stream}).ok());
  in_step.WaitForNotification();

  EXPECT_GT(loop.StepTime(), absl::ZeroDuration());
  EXPECT_FALSE(loop.WaitUntilIdle(absl::ZeroDuration()));
  release.Notify();
  EXPECT_TRUE(loop.WaitUntilIdle(absl::Seconds(30)));
  EXPECT_EQ(loop.StepTime(), absl::ZeroDuration());
}

TEST(BatchLoopThreadTest, ADeadlineWakesTheSleepingLoop) {
  FakeEngine engine;
  BatchLoop loop(&engine, {});
  loop.Start();
  // Paused by its reader, nothing else to do: only the deadline can end it.
  Request request = MakeRequest(engine, 400);
  request.deadline = absl::Now() + absl::Milliseconds(50);
  auto stream = std::make_shared<EventStream>(request.layout, 4, nullptr);
  ASSERT_TRUE(
      loop.Submit({.request = std::move(request), .stream = stream}).ok());

  EXPECT_TRUE(loop.WaitUntilIdle(absl::Seconds(30)));
  EXPECT_EQ(loop.stats().kv_cache.used_blocks, 0);
}

TEST(BatchLoopThreadTest, DestructionEndsWhatRuns) {
  FakeEngine engine;
  auto stream = std::make_shared<EventStream>(CaptureLayout{}, 4, nullptr);
  {
    BatchLoop loop(&engine, {});
    loop.Start();
    Request request = MakeRequest(engine, 400);
    request.sequence.capture = {};
    request.layout = {};
    ASSERT_TRUE(
        loop.Submit({.request = std::move(request), .stream = stream}).ok());
  }
  EXPECT_EQ(engine.open_sequences(), 0);
}

}  // namespace
}  // namespace headrace
