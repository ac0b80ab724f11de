// A batch loop on a fake engine, driven round by round with a clock that the
// test moves.
#ifndef HEADRACE_TESTS_SERVER_BATCHING_LOOP_FIXTURE_H_
#define HEADRACE_TESTS_SERVER_BATCHING_LOOP_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/batching/batch_loop.h"
#include "tests/fakes/fake_engine.h"

namespace headrace {

// What a request's stream gave out so far.
struct Received {
  bool started = false;
  std::vector<TokenEvent> tokens;
  std::vector<PositionLogprobs> prompt_logprobs;
  std::vector<ActivationChunk> chunks;
  std::vector<ChoiceEndEvent> choice_ends;
  std::optional<EndEvent> end;
  absl::Status failure;

  std::vector<int32_t> TokensOf(int32_t choice) const {
    std::vector<int32_t> ids;
    for (const TokenEvent& token : tokens) {
      if (token.choice == choice) ids.push_back(token.token);
    }
    return ids;
  }
  std::vector<int64_t> PositionsOf(HookPoint hook, int32_t layer) const {
    std::vector<int64_t> positions;
    for (const ActivationChunk& chunk : chunks) {
      if (chunk.hook != hook || chunk.layer != layer) continue;
      positions.insert(positions.end(), chunk.positions.begin(),
                       chunk.positions.end());
    }
    return positions;
  }
};

// The client's side of one request.
struct Client {
  std::shared_ptr<EventStream> stream;
  RequestId id{};
  Received received;

  // Takes all there is.
  Received& Read() {
    while (std::optional<StreamEvent> event = stream->Pop()) Take(*event);
    return received;
  }
  void Take(StreamEvent& event) {
    if (std::holds_alternative<StartedEvent>(event)) {
      received.started = true;
    } else if (auto* token = std::get_if<TokenEvent>(&event)) {
      received.tokens.push_back(std::move(*token));
    } else if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      received.prompt_logprobs.push_back(std::move(prompt->logprobs));
    } else if (auto* chunk = std::get_if<ActivationChunk>(&event)) {
      received.chunks.push_back(std::move(*chunk));
    } else if (auto* choice = std::get_if<ChoiceEndEvent>(&event)) {
      received.choice_ends.push_back(std::move(*choice));
    } else if (auto* end = std::get_if<EndEvent>(&event)) {
      received.end = std::move(*end);
    } else if (auto* failed = std::get_if<FailedEvent>(&event)) {
      received.failure = std::move(failed->status);
    }
  }
};

class LoopFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kTokenEvents = 64;

  void MakeLoop(BatchLoopOptions options = {}, FakeEngineOptions engine = {}) {
    loop_.reset();
    engine_ = std::make_unique<FakeEngine>(engine);
    options.batcher.now = [this] { return now_; };
    options.batcher.on_request_done = [this](const RequestRecord& record) {
      records_.push_back(record);
      if (on_done_) on_done_();
    };
    loop_ = std::make_unique<BatchLoop>(engine_.get(), std::move(options));
  }

  void SetUp() override { MakeLoop(); }

  // A greedy request over the bytes of `prompt`.
  Request MakeRequest(const std::string& prompt, int64_t max_tokens) const {
    Request request;
    request.sequence.prompt.assign(prompt.begin(), prompt.end());
    request.sequence.max_rows =
        static_cast<int64_t>(prompt.size()) + std::max<int64_t>(max_tokens, 1);
    request.sequence.rope = engine_->model().rope;
    request.sequence.sampling.temperature = 0;
    request.sequence.end_token_ids = engine_->model().end_token_ids;
    request.sequence.prefix_salt = 0;
    request.stop.max_tokens = max_tokens;
    return request;
  }

  // Adds a capture of resid_post at every layer.
  void CaptureResidPost(Request& request, int64_t max_ring_bytes = 1 << 20) {
    HookSelection hook{.hook = HookPoint::kResidPost};
    const auto layers =
        static_cast<int32_t>(engine_->model().config.num_hidden_layers);
    for (int32_t layer = 0; layer < layers; ++layer) {
      hook.layers.push_back(layer);
    }
    request.sequence.capture.hooks = {hook};
    request.sequence.capture.rows.prompt.all = true;
    request.sequence.capture.rows.generated.all = true;
    request.layout =
        MakeCaptureLayout(request.sequence.capture, engine_->hooks(), {},
                          request.delivery, max_ring_bytes);
  }

  absl::StatusOr<Client> TrySubmit(Request request) {
    Client client;
    client.stream = std::make_shared<EventStream>(request.layout, kTokenEvents,
                                                  /*on_events=*/nullptr);
    absl::StatusOr<RequestId> id =
        loop_->Submit({.request = std::move(request), .stream = client.stream});
    if (!id.ok()) return id.status();
    client.id = *id;
    return client;
  }

  Client Submit(Request request) {
    absl::StatusOr<Client> client = TrySubmit(std::move(request));
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : Client{};
  }

  // Runs until nothing moves, each client reading all the time.
  void RunAll(std::vector<Client*> clients) {
    for (int round = 0; round < 10000; ++round) {
      const bool ran = loop_->RunOnce();
      for (Client* client : clients) client->Read();
      if (!ran && !loop_->RunOnce()) return;
    }
    ADD_FAILURE() << "the loop does not come to rest";
  }

  void ExpectNothingLeft() {
    loop_->RunOnce();
    EXPECT_EQ(engine_->open_sequences(), 0);
    const BatchStats stats = loop_->stats();
    EXPECT_EQ(stats.kv_cache.used_blocks, 0);
    EXPECT_EQ(stats.ring_bytes, 0);
    EXPECT_EQ(stats.queued_requests, 0);
    EXPECT_EQ(stats.running_requests, 0);
    EXPECT_TRUE(loop_->WaitUntilIdle(absl::ZeroDuration()));
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::vector<RequestRecord> records_;
  std::function<void()> on_done_;  // called when a request has ended
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<BatchLoop> loop_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SERVER_BATCHING_LOOP_FIXTURE_H_
