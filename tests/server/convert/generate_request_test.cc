#include "server/convert/generate_request.h"

#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class GenerateRequestTest : public ConvertFixture {
 protected:
  ResolvedGenerate Resolve(const v1::GenerateRequest& proto) {
    absl::StatusOr<ResolvedGenerate> resolved =
        ResolveGenerate(proto, context_);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return resolved.ok() ? *std::move(resolved) : ResolvedGenerate{};
  }

  absl::Status Refusal(const v1::GenerateRequest& proto) {
    return ResolveGenerate(proto, context_).status();
  }

  static v1::GenerateRequest Text(const std::string& text) {
    v1::GenerateRequest proto;
    proto.set_text(text);
    return proto;
  }
};

TEST_F(GenerateRequestTest, DefaultsAreTheEngines) {
  const ResolvedGenerate resolved = Resolve(Text("hello"));

  const SamplingParams defaults;
  const v1::SamplingParams& sampling = resolved.header.sampling();
  EXPECT_EQ(sampling.temperature(), defaults.temperature);
  EXPECT_EQ(sampling.top_p(), defaults.top_p);
  EXPECT_EQ(sampling.n(), 1u);
  EXPECT_EQ(resolved.request.sequence.end_token_ids,
            engine_->model().end_token_ids);
  EXPECT_TRUE(resolved.request.skip_special_tokens);
  EXPECT_EQ(resolved.request.sequence.prefix_salt, 0u);
  EXPECT_FALSE(resolved.request.sequence.logprobs.enabled);
  EXPECT_EQ(resolved.header.residual_dtype(), "f32");
  EXPECT_EQ(resolved.header.rope().type(), v1::ROPE_TYPE_DEFAULT);
  EXPECT_THAT(resolved.header.prompt_token_ids(),
              ElementsAre('h', 'e', 'l', 'l', 'o'));
}

// Unset acts as 0, or big seeds lose digits (Blaizzy/mlx-vlm#1844,
// ggml-org/llama.cpp#2002).
TEST_F(GenerateRequestTest, EverySeedIsEchoedExactly) {
  EXPECT_EQ(Resolve(Text("a")).header.sampling().seed(), 42u);
  EXPECT_EQ(Resolve(Text("a")).header.sampling().seed(), 43u)
      << "unset is drawn anew";
  for (const uint64_t seed :
       {uint64_t{0}, uint64_t{1} << 31, (uint64_t{1} << 53) + 1,
        uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()}) {
    v1::GenerateRequest proto = Text("a");
    proto.mutable_sampling()->set_seed(seed);
    const ResolvedGenerate resolved = Resolve(proto);
    EXPECT_EQ(resolved.request.sequence.sampling.seed, seed);
    EXPECT_EQ(resolved.header.sampling().seed(), seed);
  }
}

// A NaN parameter passes a comparison with 0 (ohdearquant/lattice#297).
TEST_F(GenerateRequestTest, EveryBadFieldIsNamedAtOnce) {
  v1::GenerateRequest proto = Text("hello");
  v1::SamplingParams& sampling = *proto.mutable_sampling();
  sampling.set_temperature(kNan);
  sampling.set_top_p(kNan);
  sampling.set_min_p(1.5);
  sampling.set_typical_p(-1);
  sampling.set_repetition_penalty(0);
  sampling.set_presence_penalty(std::numeric_limits<double>::infinity());
  (*sampling.mutable_logit_bias())[65] = static_cast<float>(kNan);
  proto.mutable_stop()->add_stop_strings("");
  proto.mutable_stop()->add_stop_strings("ok");
  proto.mutable_stop()->set_time_limit(-1);
  proto.mutable_context_extension()
      ->mutable_rope_scaling()
      ->mutable_linear()
      ->set_factor(kNan);

  EXPECT_THAT(FieldsOf(Refusal(proto)),
              UnorderedElementsAre(
                  "sampling.temperature", "sampling.top_p", "sampling.min_p",
                  "sampling.typical_p", "sampling.repetition_penalty",
                  "sampling.presence_penalty", "sampling.logit_bias[65]",
                  "stop.stop_strings[0]", "stop.time_limit",
                  "context_extension.rope_scaling.linear.factor"));
  EXPECT_THAT(ViolationsOf(Refusal(proto)),
              Contains(AllOf(HasSubstr("min_p"), HasSubstr("1.5"),
                             HasSubstr("[0, 1]"))));
}

// Ids are checked in the prompt only (vllm-project/vllm#51795).
TEST_F(GenerateRequestTest, EveryTokenIdIsChecked) {
  v1::GenerateRequest proto;
  proto.mutable_tokens()->add_ids(259);
  proto.mutable_tokens()->add_ids(260);
  proto.mutable_stop()->add_stop_token_ids(4294967295u);
  (*proto.mutable_sampling()->mutable_logit_bias())[260] = 1;
  proto.mutable_sampling()->add_allowed_token_ids(300);
  proto.mutable_logprobs()->add_of_token_ids(260);
  v1::CaptureSpec& capture = *proto.mutable_capture();
  capture.add_hooks()->set_hook(v1::HOOK_POINT_EMBED);
  capture.mutable_rows()->mutable_prompt()->add_token_ids(260);
  capture.mutable_rows()->mutable_generated()->add_token_ids(259);
  capture.mutable_rows()->add_exclude_token_ids(261);

  EXPECT_THAT(FieldsOf(Refusal(proto)),
              UnorderedElementsAre("tokens.ids[1]", "stop.stop_token_ids[0]",
                                   "sampling.logit_bias[260]",
                                   "sampling.allowed_token_ids[0]",
                                   "logprobs.of_token_ids[0]",
                                   "capture.rows.prompt.token_ids[0]",
                                   "capture.rows.exclude_token_ids[0]"));
}

// An empty prompt crashes, hangs or succeeds (ggml-org/llama.cpp#5953).
TEST_F(GenerateRequestTest, AnEmptyPromptIsRefused) {
  v1::GenerateRequest tokens;
  tokens.mutable_tokens();
  v1::GenerateRequest chat;
  chat.mutable_chat();

  for (const v1::GenerateRequest& proto :
       {Text(""), tokens, chat, v1::GenerateRequest()}) {
    EXPECT_THAT(FieldsOf(Refusal(proto)), ElementsAre("prompt"))
        << proto.ShortDebugString();
  }
}

TEST_F(GenerateRequestTest, AnEmptyTextIsABosWhereTheTokenizerAddsOne) {
  UseEngine({.adds_bos = true});

  EXPECT_EQ(Resolve(Text("")).request.sequence.prompt,
            std::vector<int32_t>{kFakeBos});
  v1::GenerateRequest without = Text("");
  without.set_add_special_tokens(false);
  EXPECT_THAT(FieldsOf(Refusal(without)), ElementsAre("prompt"));
}

TEST_F(GenerateRequestTest, TextBecomesControlTokensOnlyWhenAskedFor) {
  v1::GenerateRequest proto = Text("<s>");
  EXPECT_EQ(Resolve(proto).request.sequence.prompt.size(), 3u);
  proto.set_parse_special(true);
  EXPECT_EQ(Resolve(proto).request.sequence.prompt,
            std::vector<int32_t>{kFakeBos});
}

TEST_F(GenerateRequestTest, NulBytesAreText) {
  EXPECT_EQ(Resolve(Text(std::string("a\0b", 3))).request.sequence.prompt,
            (std::vector<int32_t>{'a', 0, 'b'}));
}

TEST_F(GenerateRequestTest, ATextNeedsATokenizerAndIdsDoNot) {
  UseEngine({.has_tokenizer = false});

  EXPECT_THAT(ViolationsOf(Refusal(Text("hello"))),
              ElementsAre(HasSubstr("text: needs a tokenizer")));
  v1::GenerateRequest proto;
  proto.mutable_tokens()->add_ids(5);
  EXPECT_TRUE(Refusal(proto).ok());
  proto.mutable_stop()->add_stop_strings("x");
  EXPECT_THAT(FieldsOf(Refusal(proto)), ElementsAre("stop.stop_strings"));
}

TEST_F(GenerateRequestTest, AnotherModelIsNotFound) {
  v1::GenerateRequest proto = Text("hello");
  proto.set_model("fake");
  EXPECT_TRUE(Refusal(proto).ok());
  proto.set_model("other");

  const absl::Status status = Refusal(proto);

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  google::rpc::ResourceInfo info;
  ASSERT_EQ(ToRpcStatus(status).details_size(), 1);
  ASSERT_TRUE(ToRpcStatus(status).details(0).UnpackTo(&info));
  EXPECT_EQ(info.resource_name(), "other");
}

// The limits at the context's edge differ between engines
// (vllm-project/vllm#16445, #19337).
TEST_F(GenerateRequestTest, PromptAndTokensFitTheContext) {
  UseEngine({.context_length = 32});
  const ResolvedGenerate open = Resolve(Text(std::string(31, 'a')));
  EXPECT_EQ(open.header.max_tokens(), 1u);
  EXPECT_TRUE(open.request.stop.limited_by_context);

  v1::GenerateRequest clamped = Text(std::string(30, 'a'));
  clamped.mutable_stop()->set_max_tokens(10);
  const ResolvedGenerate limited = Resolve(clamped);
  EXPECT_EQ(limited.header.max_tokens(), 2u);
  EXPECT_TRUE(limited.request.stop.limited_by_context);

  v1::GenerateRequest exact = Text(std::string(30, 'a'));
  exact.mutable_stop()->set_max_tokens(2);
  EXPECT_FALSE(Resolve(exact).request.stop.limited_by_context);

  EXPECT_THAT(ViolationsOf(Refusal(Text(std::string(32, 'a')))),
              ElementsAre(AllOf(HasSubstr("prompt: "), HasSubstr("32 tokens"),
                                HasSubstr("context of 32"))));
  v1::GenerateRequest prompt_only = Text(std::string(32, 'a'));
  prompt_only.mutable_stop()->set_max_tokens(0);
  EXPECT_TRUE(Refusal(prompt_only).ok()) << "nothing is to be generated";
}

TEST_F(GenerateRequestTest, WithoutALimitARequestTakesWhatTheCacheHolds) {
  UseEngine({.total_blocks = 4, .block_size = 16, .context_length = 512});

  const ResolvedGenerate resolved = Resolve(Text(std::string(10, 'a')));

  EXPECT_EQ(resolved.header.max_tokens(), 54u);
  EXPECT_EQ(resolved.request.sequence.max_rows, 63);
}

TEST_F(GenerateRequestTest, RowsAreReservedForAllButTheLastToken) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_stop()->set_max_tokens(10);
  EXPECT_EQ(Resolve(proto).request.sequence.max_rows, 14);

  v1::CaptureSpec& capture = *proto.mutable_capture();
  capture.add_hooks()->set_hook(v1::HOOK_POINT_EMBED);
  capture.mutable_rows()->mutable_generated()->set_all(true);
  capture.mutable_rows()->set_feed_last_token(true);
  EXPECT_EQ(Resolve(proto).request.sequence.max_rows, 15);
}

// The window is capped at the trained length although scaling was asked
// (ggml-org/llama.cpp#17459).
TEST_F(GenerateRequestTest, AScaledContextIsLonger) {
  UseEngine({.total_blocks = 1000, .context_length = 512});
  v1::GenerateRequest proto = Text(std::string(600, 'a'));
  EXPECT_THAT(ViolationsOf(Refusal(proto)),
              ElementsAre(AllOf(HasSubstr("600"), HasSubstr("512"))));
  v1::ContextExtension& extension = *proto.mutable_context_extension();
  extension.mutable_rope_scaling()->mutable_linear()->set_factor(4);
  extension.set_max_context(2048);

  const ResolvedGenerate resolved = Resolve(proto);

  EXPECT_EQ(resolved.header.rope().type(), v1::ROPE_TYPE_LINEAR);
  EXPECT_EQ(resolved.header.rope().context_length(), 2048u);
  EXPECT_EQ(resolved.header.rope().factor(), 4);
  EXPECT_EQ(resolved.header.max_tokens(), 2048u - 600u);
}

// What is counted by position is counted for a request that can run at all:
// `none` serves two billion positions.
TEST_F(GenerateRequestTest, MoreThanTheCacheHoldsIsRefusedAtOnce) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_stop()->set_max_tokens(4294967295u);
  v1::ContextExtension& extension = *proto.mutable_context_extension();
  extension.mutable_rope_scaling()->mutable_none();
  extension.set_max_context(2147483647);
  v1::CaptureSpec& capture = *proto.mutable_capture();
  capture.add_hooks()->set_hook(v1::HOOK_POINT_EMBED);
  capture.mutable_rows()->mutable_generated()->set_all(true);
  capture.mutable_rows()->mutable_generated()->set_stride(7);

  const std::clock_t start = std::clock();
  const absl::Status refusal = Refusal(proto);

  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("2147483646 positions of the KV cache; it has 1024"));
}

TEST_F(GenerateRequestTest, IdsThatAreSentOftenCountOnce) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_stop()->set_ignore_eos(true);
  for (int i = 0; i < 1000; ++i) {
    proto.mutable_stop()->add_stop_token_ids(10 + i % 2);
    proto.mutable_sampling()->add_allowed_token_ids(21 - i % 2);
  }

  const ResolvedGenerate resolved = Resolve(proto);

  EXPECT_THAT(resolved.request.sequence.end_token_ids, ElementsAre(10, 11));
  EXPECT_THAT(resolved.header.sampling().allowed_token_ids(),
              ElementsAre(20, 21));
}

TEST_F(GenerateRequestTest, StopTokensJoinTheModelsUnlessIgnored) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_stop()->add_stop_token_ids('\n');
  EXPECT_THAT(Resolve(proto).request.sequence.end_token_ids,
              ElementsAre(kFakeEos, kFakeImEnd, '\n'));
  proto.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(Resolve(proto).request.sequence.end_token_ids, ElementsAre('\n'));
}

TEST_F(GenerateRequestTest, LimitsOfListsAndNames) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_sampling()->set_n(17);
  for (int i = 0; i < 17; ++i) proto.mutable_stop()->add_stop_strings("s");
  proto.mutable_stop()->set_max_tokens(3);
  proto.mutable_stop()->set_min_tokens(4);
  proto.mutable_logprobs()->set_top_n(1'000'000);
  proto.set_priority(101);
  proto.set_client_request_id(std::string(129, 'i'));
  proto.mutable_cache()->set_salt(std::string(129, 's'));

  EXPECT_THAT(
      FieldsOf(Refusal(proto)),
      UnorderedElementsAre("sampling.n", "stop.stop_strings", "stop.min_tokens",
                           "logprobs.top_n", "priority", "client_request_id",
                           "cache.salt"));
}

TEST_F(GenerateRequestTest, SaltsKeepPrefixesApart) {
  v1::GenerateRequest proto = Text("hello");
  proto.mutable_cache()->set_salt("tenant a");
  const auto a = Resolve(proto).request.sequence.prefix_salt;
  EXPECT_EQ(Resolve(proto).request.sequence.prefix_salt, a);
  proto.mutable_cache()->set_salt("tenant b");
  EXPECT_NE(Resolve(proto).request.sequence.prefix_salt, a);
  EXPECT_EQ(Resolve(proto).request.tenant, "tenant b");
  EXPECT_NE(a, 0u);
  proto.mutable_cache()->set_use_prefix(false);
  EXPECT_FALSE(Resolve(proto).request.sequence.prefix_salt.has_value());
}

TEST_F(GenerateRequestTest, ForwardIsAPromptWithoutTokens) {
  v1::ForwardRequest forward;
  forward.set_text("hello");
  forward.mutable_logprobs()->set_top_n(2);
  forward.set_client_request_id("mine");

  const ResolvedGenerate resolved = Resolve(AsGenerate(forward));

  EXPECT_EQ(resolved.request.stop.max_tokens, 0);
  EXPECT_TRUE(resolved.request.sequence.logprobs.prompt);
  EXPECT_EQ(resolved.header.client_request_id(), "mine");
}

}  // namespace
}  // namespace headrace
