// The batch loop on the real engine: whatever the scheduler chooses (whom to
// suspend, what to guess), a request's stream is the same in every bit; and
// the decode stall is as short as it is promised to be.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/batching/loop_fixture.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/numerics_param.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

// choice, hook, layer, position → the row as it went over the wire.
using Rows =
    std::map<std::tuple<int32_t, HookPoint, int32_t, int64_t>, std::string>;

class EngineLoopTest : public ::testing::TestWithParam<Numerics> {
 protected:
  // A server of `blocks` KV blocks. Each look at the clock moves it by 5 ms, so
  // all steps seem to take equally long, however many rows they have.
  void MakeLoop(BatchLoopOptions options, int64_t blocks = 256,
                const TinyModelOptions& model = SmallModel()) {
    loop_.reset();
    const std::string path =
        WriteGgufModel(BuildTinyModel(model), folder_.Join("tiny.gguf"),
                       {.dtype = DType::kQ4_1})
            .front();
    const int64_t row_bytes = model.num_hidden_layers * 2 *
                              model.num_key_value_heads * model.head_dim * 4;
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create({.model_path = path,
                        .numerics = GetParam(),
                        .num_threads = 1,
                        .kv_cache_bytes = blocks * 16 * row_bytes});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    if (!clock_) {
      options.batcher.now = [this] { return now_ += absl::Milliseconds(5); };
    } else {
      options.batcher.now = clock_;
    }
    loop_ = std::make_unique<BatchLoop>(engine_.get(), std::move(options));
  }

  static TinyModelOptions SmallModel() {
    return {.hidden_size = 96,
            .intermediate_size = 160,
            .num_attention_heads = 6,
            .num_key_value_heads = 2,
            .head_dim = 16,
            .max_position_embeddings = 256};
  }

  Request MakeRequest(const std::string& prompt, int64_t max_tokens) const {
    Request request;
    SequenceOptions& sequence = request.sequence;
    sequence.prompt = engine_->tokenizer()->Encode(prompt, {});
    sequence.max_rows = std::ssize(sequence.prompt) + max_tokens;
    sequence.rope = engine_->model().rope;
    sequence.sampling.temperature = 0;
    sequence.logprobs = {.top_n = 2, .enabled = true, .prompt = true};
    sequence.prefix_salt = 0;
    request.stop.max_tokens = max_tokens;
    request.delivery.feed_last_token = true;
    return request;
  }

  void Capture(Request& request) const {
    CapturePlan& plan = request.sequence.capture;
    plan.hooks = {{.hook = HookPoint::kResidPost, .layers = {0, 1}},
                  {.hook = HookPoint::kLogits, .layers = {-1}}};
    plan.rows.prompt.all = true;
    plan.rows.generated.all = true;
    plan.checks = true;
    request.layout = MakeCaptureLayout(plan, engine_->hooks(), {},
                                       request.delivery, 1 << 24);
  }

  Client Submit(Request request) {
    Client client;
    client.stream = std::make_shared<EventStream>(request.layout, 4096,
                                                  /*on_events=*/nullptr);
    const absl::StatusOr<RequestId> id =
        loop_->Submit({.request = std::move(request), .stream = client.stream});
    EXPECT_TRUE(id.ok()) << id.status();
    client.id = id.value_or(RequestId{});
    return client;
  }

  void RunAll(const std::vector<Client*>& clients) {
    for (int round = 0; round < 20000; ++round) {
      const bool ran = loop_->RunOnce();
      for (Client* client : clients) client->Read();
      if (!ran && !loop_->RunOnce()) return;
    }
    ADD_FAILURE() << "the loop does not come to rest";
  }

  TempFolder folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::function<absl::Time()> clock_;  // null: the one that counts looks
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<BatchLoop> loop_;
};

Rows RowsOf(const Received& received) {
  Rows rows;
  for (const ActivationChunk& chunk : received.chunks) {
    const size_t size = chunk.data.size() / chunk.positions.size();
    for (size_t i = 0; i < chunk.positions.size(); ++i) {
      const auto [row, is_new] = rows.emplace(
          std::tuple(chunk.choice, chunk.hook, chunk.layer, chunk.positions[i]),
          chunk.data.substr(i * size, size));
      EXPECT_TRUE(is_new) << "position " << chunk.positions[i] << " came twice";
    }
  }
  return rows;
}

void ExpectSameLogprobs(const PositionLogprobs& a, const PositionLogprobs& b) {
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.token.token, b.token.token);
  EXPECT_EQ(a.token.logprob, b.token.logprob);
  EXPECT_EQ(a.token.rank, b.token.rank);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token);
    EXPECT_EQ(a.top[i].logprob, b.top[i].logprob);
  }
}

// Everything that a client sees, but for the clock.
void ExpectSameStream(const Received& a, const Received& b) {
  ASSERT_TRUE(a.end.has_value()) << a.failure;
  ASSERT_TRUE(b.end.has_value()) << b.failure;
  const auto tokens_of = [](const Received& received, int32_t choice) {
    std::vector<const TokenEvent*> tokens;
    for (const TokenEvent& token : received.tokens) {
      if (token.choice == choice) tokens.push_back(&token);
    }
    return tokens;
  };
  for (size_t choice = 0; choice < a.choice_ends.size(); ++choice) {
    const auto mine = tokens_of(a, static_cast<int32_t>(choice));
    const auto other = tokens_of(b, static_cast<int32_t>(choice));
    ASSERT_EQ(mine.size(), other.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i]->index, other[i]->index);
      EXPECT_EQ(mine[i]->token, other[i]->token);
      EXPECT_EQ(mine[i]->text, other[i]->text);
      ExpectSameLogprobs(*mine[i]->logprobs, *other[i]->logprobs);
    }
    EXPECT_EQ(a.choice_ends[choice].text, b.choice_ends[choice].text);
    EXPECT_EQ(a.choice_ends[choice].reason, b.choice_ends[choice].reason);
    EXPECT_EQ(a.choice_ends[choice].generated, b.choice_ends[choice].generated);
  }
  ASSERT_EQ(a.prompt_logprobs.size(), b.prompt_logprobs.size());
  for (size_t i = 0; i < a.prompt_logprobs.size(); ++i) {
    ExpectSameLogprobs(a.prompt_logprobs[i], b.prompt_logprobs[i]);
  }
  EXPECT_EQ(RowsOf(a), RowsOf(b));
  EXPECT_EQ(a.end->generated_tokens, b.end->generated_tokens);
  EXPECT_EQ(a.end->interventions_applied, b.end->interventions_applied);
  ASSERT_EQ(a.end->checks.has_value(), b.end->checks.has_value());
  if (!a.end->checks.has_value()) return;
  EXPECT_EQ(a.end->checks->rows_checked, b.end->checks->rows_checked);
  EXPECT_EQ(a.end->checks->resid_post_failed, 0);
  EXPECT_EQ(a.end->checks->max_sum_relative_error,
            b.end->checks->max_sum_relative_error);
}

const char kPrompt[] =
    "one two three four five six seven; one two three four five six seven; ";

TEST_P(EngineLoopTest, PreemptionLosesNothing) {
  const auto make_request = [this](bool seeded) {
    Request request = MakeRequest(kPrompt, 40);
    if (seeded) {
      request.sequence.sampling = {
          .temperature = 0.9, .repetition_penalty = 1.1, .seed = 11};
      request.num_choices = 2;
    }
    Capture(request);
    request.stop.stop_strings = {"\x01\x02\x03"};
    return request;
  };
  for (const bool seeded : {false, true}) {
    // A choice takes seven blocks.
    MakeLoop({.batcher = {.limits = {.max_batch_rows = 32}}});
    Client plain = Submit(make_request(seeded));
    RunAll({&plain});
    for (const int rounds : {1, 2, 4, 9, 30}) {
      SCOPED_TRACE(testing::Message() << "seeded " << seeded << ", suspended "
                                      << "after " << rounds << " rounds");
      MakeLoop({.batcher = {.limits = {.max_batch_rows = 32}}},
               /*blocks=*/17);
      Client low = Submit(make_request(seeded));
      for (int i = 0; i < rounds; ++i) {
        loop_->RunOnce();
        low.Read();
      }
      std::vector<Client> high;
      for (int i = 0; i < 2; ++i) {
        // Leaves five blocks, too few for one that has begun.
        const int64_t rows = (engine_->kv_cache().total_blocks - 5) * 16;
        Request request = MakeRequest(std::string(90, 'x'), rows - 90);
        request.priority = 1;
        high.push_back(Submit(std::move(request)));
      }
      RunAll({&low, &high[0], &high[1]});

      EXPECT_GE(loop_->stats().suspensions, 1);
      ExpectSameStream(low.received, plain.received);
      EXPECT_TRUE(high[1].received.end.has_value());
      EXPECT_EQ(engine_->kv_cache().used_blocks, 0);
    }
  }
}

TEST_P(EngineLoopTest, SpeculationChangesNothing) {
  struct Case {
    double temperature;
    bool captures;
    bool stops;
  };
  for (const Case& c : {Case{0, false, false}, Case{0, true, false},
                        Case{0.3, true, false}, Case{0, false, true}}) {
    SCOPED_TRACE(testing::Message() << "temperature " << c.temperature
                                    << ", captures " << c.captures);
    const auto run = [&](int64_t max_drafts, const std::string& stop) {
      MakeLoop({.batcher = {.max_drafts = max_drafts}});
      std::vector<Client> clients;
      for (int i = 0; i < 2; ++i) {
        Request request = MakeRequest(std::string("ab") + kPrompt, 120);
        request.sequence.sampling.temperature = c.temperature;
        // Random weights seldom repeat themselves: with two words they must.
        request.sequence.sampling.allowed_token_ids = {100, 101};
        request.sequence.sampling.seed = static_cast<uint64_t>(i);
        if (c.captures) Capture(request);
        if (!stop.empty()) request.stop.stop_strings = {stop};
        clients.push_back(Submit(std::move(request)));
      }
      RunAll({&clients[0], &clients[1]});
      return clients;
    };
    std::vector<Client> plain = run(0, "");
    std::string stop;
    if (c.stops) {
      // In the middle of what is generated.
      for (size_t i = 70; i < 73; ++i) {
        stop += plain[0].received.tokens[i].text;
      }
      plain = run(0, stop);
    }
    const int64_t plain_steps = loop_->stats().steps;

    const std::vector<Client> drafted = run(6, stop);

    const BatchStats stats = loop_->stats();
    EXPECT_GT(stats.accepted_tokens, c.stops ? 0 : 10);
    EXPECT_LT(stats.steps, plain_steps);
    for (size_t i = 0; i < plain.size(); ++i) {
      ExpectSameStream(drafted[i].received, plain[i].received);
    }
  }
}

// Time that this process computed: what else runs on the machine is left out.
absl::Time ProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::UnixEpoch() + absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

TEST_P(EngineLoopTest, TheDecodeStallIsBounded) {
  constexpr absl::Duration kStall = absl::Milliseconds(20);
  TinyModelOptions model = SmallModel();
  model.hidden_size = 256;
  model.intermediate_size = 1024;
  model.max_position_embeddings = 2048;
  clock_ = ProcessorTime;
  MakeLoop({.batcher = {.limits = {.max_decode_stall = kStall}}},
           /*blocks=*/512, model);
  Client talker = Submit(MakeRequest("x", 1500));
  loop_->RunOnce();
  // Teaches the cost of a row.
  Client first = Submit(MakeRequest(std::string(300, 'a'), 1));
  while (!first.Read().end.has_value()) loop_->RunOnce();

  Client second = Submit(MakeRequest(std::string(1900, 'b'), 1));
  std::vector<absl::Duration> steps;
  int64_t tokens = std::ssize(talker.Read().tokens);
  while (!second.Read().end.has_value()) {
    const absl::Time start = ProcessorTime();
    ASSERT_TRUE(loop_->RunOnce());
    steps.push_back(ProcessorTime() - start);
    EXPECT_EQ(std::ssize(talker.Read().tokens), ++tokens)
        << "every step has a token for who decodes";
  }

  // The median of many: a neighbour takes caches and memory from us.
  ASSERT_GE(steps.size(), 5u) << "the prompt is too short to tell";
  std::sort(steps.begin(), steps.end());
  EXPECT_LE(steps[steps.size() / 2], 2 * kStall);
  loop_->CancelAll();
  loop_->RunOnce();
}

INSTANTIATE_TEST_SUITE_P(Numerics, EngineLoopTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
