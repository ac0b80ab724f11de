// The server on the real engine and a model that the test writes: what a
// client sees of the promises.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/stream_position.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What a stream of Generate came to.
struct Seen {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> logprob_bits;
  // Rows by hook, layer and position, of choice 0.
  std::map<std::tuple<int, uint32_t, uint32_t>, std::vector<float>> rows;
  v1::Header header;
  v1::End end;

  bool operator==(const Seen& other) const {
    return ids == other.ids && logprob_bits == other.logprob_bits;
  }
};

class EngineServerTest : public ServerFixture {
 protected:
  void StartModel(const TestModel& model = BuildTinyModel(),
                  ServerOptions options = {}) {
    const std::string path =
        WriteGgufModel(model, folder_.Join("tiny.gguf")).front();
    EngineOptions engine_options{.model_path = path,
                                 .numerics = Numerics::kExact,
                                 .num_threads = 2,
                                 .kv_cache_bytes = 8 << 20};
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create(std::move(engine_options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    Open(std::move(options));
    server_->Serve(*std::move(engine));
    server_->SetReady();
  }

  static v1::GenerateRequest Greedy(const std::string& text,
                                    uint32_t max_tokens) {
    v1::GenerateRequest request = Text(text, max_tokens);
    request.mutable_logprobs();
    request.mutable_stop()->set_ignore_eos(true);
    return request;
  }

  static Seen Look(const Answer& answer) {
    Seen seen;
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    for (const v1::GenerateResponse& event : answer.events) {
      if (event.has_header()) seen.header = event.header();
      if (event.has_end()) seen.end = event.end();
      if (event.has_token()) {
        seen.ids.push_back(event.token().id());
        seen.logprob_bits.push_back(
            std::bit_cast<uint32_t>(event.token().logprob()));
      }
      if (event.has_activations()) TakeRows(event.activations(), seen);
    }
    return seen;
  }

  static void TakeRows(const v1::ActivationChunk& chunk, Seen& seen) {
    for (int i = 0; i < chunk.positions_size(); ++i) {
      std::vector<float> row(chunk.width());
      std::memcpy(row.data(),
                  chunk.data().data() +
                      static_cast<size_t>(i) * row.size() * sizeof(float),
                  row.size() * sizeof(float));
      seen.rows[{chunk.hook(), chunk.layer(), chunk.positions(i)}] =
          std::move(row);
    }
  }

  static void CaptureHooks(const std::vector<v1::HookPoint>& hooks,
                           v1::GenerateRequest& request) {
    v1::CaptureSpec& capture = *request.mutable_capture();
    for (const v1::HookPoint hook : hooks) capture.add_hooks()->set_hook(hook);
    capture.mutable_rows()->mutable_prompt()->set_all(true);
    capture.mutable_rows()->mutable_generated()->set_all(true);
    capture.set_checks(true);
  }

  TempFolder folder_;
};

// Activation patching without moving the rows: bit for bit what sending them
// gives.
TEST_F(EngineServerTest, RowsFromAHandleAreThoseRowsSentInline) {
  StartModel();
  v1::GenerateRequest source = Greedy("the red cat", 0);
  CaptureHooks({v1::HOOK_POINT_ATTN_OUT, v1::HOOK_POINT_RESID_PRE}, source);
  const Seen rows = Look(Generate(source));
  source.mutable_capture()->mutable_keep();
  const std::string handle = Look(Generate(source)).end.kept().handle();

  const std::vector<v1::HookPoint> everything = {
      v1::HOOK_POINT_Z, v1::HOOK_POINT_RESID_MID, v1::HOOK_POINT_RESID_POST,
      v1::HOOK_POINT_LOGITS};
  v1::GenerateRequest inlined = Greedy("the blue dog", 6);
  CaptureHooks(everything, inlined);
  v1::GenerateRequest by_handle = inlined;
  for (const v1::HookPoint hook :
       {v1::HOOK_POINT_ATTN_OUT, v1::HOOK_POINT_RESID_PRE}) {
    const uint32_t layer = hook == v1::HOOK_POINT_ATTN_OUT ? 0 : 1;
    for (const uint32_t p : {4u, 5u, 6u}) {
      v1::Intervention& replace = *inlined.add_interventions();
      replace.mutable_where()->set_hook(hook);
      replace.mutable_where()->add_layers(static_cast<int32_t>(layer));
      replace.mutable_rows()->mutable_prompt()->add_positions(p);
      const std::vector<float>& row = rows.rows.at({hook, layer, p});
      replace.mutable_replace()->mutable_vector()->set_f32(
          row.data(), row.size() * sizeof(float));
    }
    v1::Intervention& replace = *by_handle.add_interventions();
    replace.mutable_where()->set_hook(hook);
    replace.mutable_where()->add_layers(static_cast<int32_t>(layer));
    v1::PositionWindow& window =
        *replace.mutable_rows()->mutable_prompt()->add_windows();
    window.set_begin(4);
    window.set_end(7);
    replace.mutable_replace()->mutable_rows()->set_handle(handle);
  }

  const Seen expected = Look(Generate(inlined));
  const Seen patched = Look(Generate(by_handle));
  EXPECT_EQ(patched, expected);
  EXPECT_EQ(patched.rows, expected.rows);
  EXPECT_THAT(patched.end.interventions_applied(), ElementsAre(3, 3));
  v1::GenerateRequest plain = Greedy("the blue dog", 6);
  CaptureHooks(everything, plain);
  EXPECT_NE(Look(Generate(plain)).rows, expected.rows);
}

TEST_F(EngineServerTest, ASampledStreamIsContinuedWithTheSameBytes) {
  StartModel();
  v1::GenerateRequest request = Greedy("once upon a time", 20);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(7);
  CaptureHooks({v1::HOOK_POINT_RESID_POST, v1::HOOK_POINT_Q}, request);
  v1::HookSelector& probs = *request.mutable_capture()->add_hooks();
  probs.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  probs.add_heads(2);
  request.mutable_capture()->set_dtype(v1::WIRE_DTYPE_INT8);
  const auto bytes = [](const Answer& answer) {
    std::map<std::tuple<int, uint32_t>, std::string> all;
    for (const v1::GenerateResponse& event : answer.events) {
      const v1::ActivationChunk& chunk = event.activations();
      all[{chunk.hook(), chunk.layer()}] += chunk.data();
      all[{-1, 0}] += event.token().piece();
    }
    return all;
  };
  const auto expected = bytes(Generate(request));

  for (const size_t taken : {1, 4, 9, 15, 30}) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    client::StreamPosition position;
    Answer both;
    v1::GenerateResponse event;
    while (both.events.size() < taken && reader->Read(&event)) {
      position.Add(event);
      both.events.push_back(event);
    }
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    reader->Finish();
    const Answer rest = Generate(position.Continue(request));
    ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
    both.events.insert(both.events.end(), rest.events.begin(),
                       rest.events.end());
    EXPECT_EQ(bytes(both), expected) << taken;
  }
}

TEST_F(EngineServerTest, TheResidualIdentitiesHoldOnTheClientsSide) {
  StartModel();
  v1::GenerateRequest request = Greedy("hello world", 6);
  CaptureHooks({v1::HOOK_POINT_RESID_PRE, v1::HOOK_POINT_ATTN_OUT,
                v1::HOOK_POINT_RESID_MID, v1::HOOK_POINT_MLP_OUT,
                v1::HOOK_POINT_RESID_POST},
               request);

  const Seen seen = Look(Generate(request));

  int rows = 0;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t p = 0; p < 11 + 5; ++p, ++rows) {
      const auto row = [&](v1::HookPoint hook) {
        return seen.rows.at({hook, layer, p});
      };
      const auto pre = row(v1::HOOK_POINT_RESID_PRE);
      const auto attn = row(v1::HOOK_POINT_ATTN_OUT);
      const auto mid = row(v1::HOOK_POINT_RESID_MID);
      const auto mlp = row(v1::HOOK_POINT_MLP_OUT);
      const auto post = row(v1::HOOK_POINT_RESID_POST);
      for (size_t i = 0; i < pre.size(); ++i) {
        ASSERT_EQ(pre[i] + attn[i], mid[i]);
        ASSERT_EQ(mid[i] + mlp[i], post[i]);
      }
    }
  }
  EXPECT_EQ(seen.end.checks().rows_checked(), 16u);
  EXPECT_EQ(seen.end.checks().resid_mid_checked(), 32u);
  EXPECT_EQ(seen.end.checks().resid_mid_failed(), 0u);
  EXPECT_EQ(seen.end.checks().resid_post_failed(), 0u);
}

TEST_F(EngineServerTest, WatchingChangesNothing) {
  StartModel();
  v1::GenerateRequest request = Greedy("hello world", 12);
  const Seen unwatched = Look(Generate(request));
  CaptureHooks({v1::HOOK_POINT_RESID_POST, v1::HOOK_POINT_LOGITS}, request);

  EXPECT_EQ(Look(Generate(request)), unwatched);
}

// A slot keeps the last user's settings; a bias lands on a neighbour's row
// (ikawrakow/ik_llama.cpp#2475, vllm-project/vllm#22180).
TEST_F(EngineServerTest, NeighboursDoNotChangeARequest) {
  StartModel();
  const v1::GenerateRequest a = Greedy("hi", 12);
  v1::GenerateRequest b = Greedy("something else", 20);
  b.mutable_sampling()->set_temperature(1.3);
  b.mutable_sampling()->set_seed(3);
  b.mutable_sampling()->set_repetition_penalty(1.2);
  v1::GenerateRequest banned = a;
  const Seen alone_a = Look(Generate(a));
  (*b.mutable_sampling()->mutable_logit_bias())[alone_a.ids[0]] = -100;
  (*banned.mutable_sampling()->mutable_logit_bias())[alone_a.ids[0]] =
      -INFINITY;
  const Seen alone_b = Look(Generate(b));
  const Seen alone_banned = Look(Generate(banned));

  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> calls;
    std::vector<Seen> seen(6);
    for (int i = 0; i < 6; ++i) {
      calls.emplace_back([&, i] {
        seen[i] = Look(Generate(i % 3 == 0 ? a : i % 3 == 1 ? b : banned));
      });
    }
    for (std::thread& call : calls) call.join();
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(seen[i], i % 3 == 0   ? alone_a
                         : i % 3 == 1 ? alone_b
                                      : alone_banned);
    }
  }
  EXPECT_THAT(alone_banned.ids, Each(::testing::Ne(alone_a.ids[0])));
}

// The same seed gives another text once the prompt is cached
// (ggml-org/llama.cpp#19981).
TEST_F(EngineServerTest, TheCacheAndAFreshSeedAreToldApart) {
  StartModel();
  v1::GenerateRequest request = Greedy(std::string(100, 'x'), 16);
  request.mutable_sampling()->set_temperature(1);
  const Seen first = Look(Generate(request));
  request.mutable_sampling()->set_seed(first.header.sampling().seed());

  const Seen again = Look(Generate(request));

  EXPECT_EQ(again, first);
  EXPECT_EQ(first.end.usage().cached_tokens(), 0u);
  EXPECT_GE(again.end.usage().cached_tokens(), 80u);
  request.mutable_cache()->set_use_prefix(false);
  const Seen uncached = Look(Generate(request));
  EXPECT_EQ(uncached, first);
  EXPECT_EQ(uncached.end.usage().cached_tokens(), 0u);
}

TEST_F(EngineServerTest, ChoicesOfOneSeedDifferAndRepeat) {
  StartModel();
  v1::GenerateRequest request = Greedy("once", 10);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(0);
  request.mutable_sampling()->set_n(3);
  const auto choices = [](const Answer& answer) {
    std::vector<std::vector<uint32_t>> ids(3);
    for (const auto& event : answer.events) {
      if (event.has_token()) {
        ids[event.token().choice()].push_back(event.token().id());
      }
    }
    return ids;
  };

  const auto first = choices(Generate(request));

  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(choices(Generate(request)), first);
}

// Prompt log probabilities are silently missing, or max_tokens 0 makes a token
// (ggml-org/llama.cpp#27174).
TEST_F(EngineServerTest, ForwardAndGenerateScoreAPromptAlike) {
  StartModel();
  v1::GenerateRequest generate = Text("The capital", 0);
  generate.mutable_logprobs()->set_prompt(true);
  v1::ForwardRequest forward;
  forward.set_text("The capital");
  forward.mutable_logprobs()->set_prompt(true);

  const Answer answer = Generate(generate);
  grpc::ClientContext context;
  const auto reader = stub_->Forward(&context, forward);
  std::vector<uint32_t> forward_bits;
  v1::ForwardResponse event;
  while (reader->Read(&event)) {
    if (event.has_logprobs()) {
      forward_bits.push_back(
          std::bit_cast<uint32_t>(event.logprobs().token().logprob()));
    }
  }
  ASSERT_TRUE(reader->Finish().ok());

  std::vector<uint32_t> generate_bits;
  for (const v1::GenerateResponse& response : answer.events) {
    EXPECT_FALSE(response.has_token());
    if (response.has_prompt_logprobs()) {
      generate_bits.push_back(std::bit_cast<uint32_t>(
          response.prompt_logprobs().token().logprob()));
    }
  }
  EXPECT_THAT(generate_bits, SizeIs(10));
  EXPECT_EQ(generate_bits, forward_bits);
  EXPECT_EQ(answer.events[answer.events.size() - 2].choice_end().generated(),
            0u);
}

// The pooled embedding is not the mean of the rows that the same service
// returns (huggingface/text-embeddings-inference#278).
TEST_F(EngineServerTest, EmbedIsTheMeanOfTheRowsBitForBit) {
  StartModel();
  v1::GenerateRequest request = Greedy("embed me", 0);
  CaptureHooks({v1::HOOK_POINT_FINAL_NORM_OUT}, request);
  const Seen seen = Look(Generate(request));
  v1::EmbedRequest embed;
  embed.add_inputs()->set_text("embed me");
  v1::EmbedResponse response;
  grpc::ClientContext context;

  ASSERT_TRUE(stub_->Embed(&context, embed, &response).ok());

  std::vector<float> pooled(response.width());
  std::memcpy(pooled.data(), response.data().data(), response.data().size());
  for (size_t i = 0; i < pooled.size(); ++i) {
    double sum = 0;
    for (uint32_t p = 0; p < 8; ++p) {
      sum += seen.rows.at({v1::HOOK_POINT_FINAL_NORM_OUT, 0, p})[i];
    }
    EXPECT_EQ(pooled[i], static_cast<float>(sum / 8));
  }
}

TEST_F(EngineServerTest, ScalingServesAPromptBeyondTheTrainedLength) {
  StartModel();
  v1::GenerateRequest request = Greedy(std::string(300, 'x'), 5);
  const Answer refused = Generate(request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(),
              AllOf(HasSubstr("300"), HasSubstr("256")));
  request.mutable_context_extension()->mutable_rope_scaling()->mutable_auto_();

  const Seen seen = Look(Generate(request));

  EXPECT_THAT(seen.ids, SizeIs(5));
  EXPECT_EQ(seen.header.rope().type(), v1::ROPE_TYPE_YARN);
  EXPECT_GE(seen.header.rope().context_length(), 305u);
}

TEST_F(EngineServerTest, TheContextFillsAndSaysSo) {
  StartModel();
  v1::GenerateRequest request = Greedy(std::string(250, 'x'), 0);
  request.mutable_stop()->clear_max_tokens();

  const Answer answer = Generate(request);

  const v1::ChoiceEnd& end =
      answer.events[answer.events.size() - 2].choice_end();
  EXPECT_EQ(end.finish_reason(), v1::FINISH_REASON_CONTEXT_FULL);
  EXPECT_EQ(end.generated(), 6u);
}

// NaN in the weights: one token for ever with status OK
// (ikawrakow/ik_llama.cpp#1984).
TEST_F(EngineServerTest, NonFiniteLogitsEndOnlyTheirOwnRequest) {
  TestModel model = BuildTinyModel();
  StartModel(model);
  const Seen clean = Look(Generate(Greedy("clean", 12)));
  server_.reset();
  PutNanInEmbeddingRow(model, kTinyFirstByteId + '>');
  StartModel(model);

  std::vector<std::thread> calls;
  for (int i = 0; i < 4; ++i) {
    calls.emplace_back([&, i] {
      if (i % 2 == 0) {
        EXPECT_EQ(Look(Generate(Greedy("clean", 12))), clean);
        return;
      }
      const Answer bad = Generate(Greedy("a > b", 12));
      EXPECT_FALSE(bad.status.ok());
      EXPECT_THAT(bad.status.error_message(), HasSubstr("finite"));
    });
  }
  for (std::thread& call : calls) call.join();
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

// NaN in an embedding with status OK
// (huggingface/text-embeddings-inference#557).
TEST_F(EngineServerTest, AnEmbeddingThatIsNoNumberIsAnErrorOfItsInput) {
  TestModel model = BuildTinyModel();
  PutNanInEmbeddingRow(model, kTinyFirstByteId + '>');
  StartModel(model);

  for (const v1::Pooling pooling : {v1::POOLING_MEAN, v1::POOLING_LAST}) {
    v1::EmbedRequest request;
    request.add_inputs()->set_text("clean");
    request.set_pooling(pooling);
    v1::EmbedResponse response;
    grpc::ClientContext clean;
    ASSERT_TRUE(stub_->Embed(&clean, request, &response).ok());
    request.add_inputs()->set_text("a > b");
    grpc::ClientContext context;

    const grpc::Status status = stub_->Embed(&context, request, &response);

    EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr("inputs[1]"), HasSubstr("not finite")));
  }
}

// Rows of the embedding past the vocabulary are sampled
// (huggingface/transformers#35797).
TEST_F(EngineServerTest, IdsWithoutAPieceAreNeverSampled) {
  TestModel model = BuildTinyModel();
  PadVocabulary(model);
  StartModel(model);

  for (const double temperature : {0.0, 1.0}) {
    v1::GenerateRequest request = Greedy("hello", 20);
    request.mutable_sampling()->set_temperature(temperature);
    request.mutable_logprobs()->set_top_n(5);
    CaptureHooks({v1::HOOK_POINT_LOGITS}, request);
    const Answer answer = Generate(request);
    const Seen seen = Look(answer);
    EXPECT_THAT(seen.ids, AllOf(SizeIs(20), Each(::testing::Lt(260u))));
    // Logits and log probabilities are the model's own, and its favourite is
    // nearly always one of the two loud rows.
    int favourites = 0;
    for (const v1::GenerateResponse& event : answer.events) {
      if (!event.has_token()) continue;
      const v1::TokenLogprob& top = event.token().top_logprobs(0);
      if (top.id() < 260u) continue;
      ++favourites;
      EXPECT_EQ(top.piece(), "");
      EXPECT_GT(event.token().rank(), 1u);
    }
    EXPECT_GT(favourites, 10);
    EXPECT_THAT(seen.rows.begin()->second, SizeIs(264));
  }
  v1::GetModelResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(models_->GetModel(&context, {}, &response).ok());
  EXPECT_EQ(response.model().vocab_size(), 264u);
  EXPECT_EQ(response.model().tokenizer_vocab_size(), 260u);
}

TEST_F(EngineServerTest, CancelledRequestsLeaveTheOthersBitsAlone) {
  StartModel();
  const Seen alone = Look(Generate(Greedy("steady", 60)));
  std::vector<std::thread> calls;
  for (int i = 0; i < 4; ++i) {
    calls.emplace_back([this, i] {
      for (int k = 0; k < 10; ++k) {
        v1::GenerateRequest request = Greedy(std::string(50 + i, 'c'), 100);
        CaptureHooks({v1::HOOK_POINT_RESID_POST}, request);
        grpc::ClientContext context;
        const auto reader = stub_->Generate(&context, request);
        v1::GenerateResponse event;
        for (int read = 0; read < (i * 10 + k) % 7; ++read) {
          if (!reader->Read(&event)) break;
        }
        context.TryCancel();
        reader->Finish();
      }
    });
  }

  for (int k = 0; k < 5; ++k) {
    EXPECT_EQ(Look(Generate(Greedy("steady", 60))), alone);
  }
  for (std::thread& call : calls) call.join();
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

}  // namespace
}  // namespace headrace
