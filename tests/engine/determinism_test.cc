// The promise: a row's bits do not depend on the batch it is in, on how its
// prompt was chunked, on the prefix cache, on threads, or on being watched.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

struct Kind {
  const char* name;
  Numerics numerics;
  std::optional<KvCacheDtype> kv_cache_dtype = std::nullopt;
};

class DeterminismTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { path_ = WriteModel(); }

  std::unique_ptr<Engine> Make(int threads, bool prefix_cache = true) const {
    return MakeEngine({.model_path = path_,
                       .numerics = GetParam().numerics,
                       .kv_cache_dtype = GetParam().kv_cache_dtype,
                       .num_threads = threads,
                       .prefix_cache = prefix_cache});
  }

  // Sequence `i` of a mix: lengths, sampling and scaling differ.
  TestSequence Sequence(int64_t i, const Engine& engine) const {
    TestSequence test;
    const int64_t length = 3 + (i * 37) % 90;
    for (int64_t k = 0; k < length; ++k) {
      test.prompt.push_back(static_cast<int32_t>(3 + (i * 131 + k * 17) % 250));
    }
    test.max_tokens = 6;
    test.sampling.temperature = i % 3 == 0 ? 0 : 0.8;
    test.sampling.seed = static_cast<uint64_t>(i);
    test.logprobs.enabled = true;
    if (i % 4 == 1) {
      test.rope.kind = RopeRequest::Kind::kScaling;
      test.rope.scaling.type = RopeType::kYarn;
      test.rope.scaling.factor = 2;
    }
    test.capture = CaptureEverything(engine);
    return test;
  }

  std::vector<TestSequence> HardMix(const Engine& engine) const;

  std::string WriteModel() const {
    TinyModelOptions options;
    options.hidden_size = 96;
    options.intermediate_size = 160;
    options.num_attention_heads = 6;
    options.num_key_value_heads = 2;
    options.head_dim = 16;
    return WriteGgufModel(BuildTinyModel(options), folder_.Join("tiny.gguf"),
                          {.dtype = DType::kQ4_1})
        .front();
  }

  TempFolder folder_;
  std::string path_;
};

void ExpectSameBits(const TestSequence& a, const TestSequence& b) {
  EXPECT_EQ(a.generated, b.generated);
  ASSERT_EQ(a.sampled.size(), b.sampled.size());
  for (size_t i = 0; i < a.sampled.size(); ++i) {
    EXPECT_EQ(a.sampled[i].token.logprob, b.sampled[i].token.logprob);
  }
  EXPECT_TRUE(a.rows.attention == b.rows.attention);
  ASSERT_EQ(a.rows.rows.size(), b.rows.rows.size());
  for (const auto& [key, values] : a.rows.rows) {
    const std::vector<float>& other = b.rows.rows.at(key);
    ASSERT_EQ(values.size(), other.size());
    ASSERT_EQ(
        std::memcmp(values.data(), other.data(), values.size() * sizeof(float)),
        0)
        << "hook " << GetHookPointInfo(std::get<0>(key)).name << " layer "
        << std::get<1>(key) << " position " << std::get<2>(key);
  }
}

// And nothing was reported twice or left out.
void ExpectSameReport(const TestSequence& a, const TestSequence& b) {
  ExpectSameBits(a, b);
  EXPECT_EQ(a.rows.calls, b.rows.calls);
  EXPECT_EQ(a.rows.derived, b.rows.derived);
  EXPECT_EQ(a.checks.rows_checked, b.checks.rows_checked);
  EXPECT_EQ(a.checks.resid_mid_checked, b.checks.resid_mid_checked);
  EXPECT_EQ(a.checks.resid_mid_failed, 0);
  EXPECT_EQ(a.checks.resid_post_checked, b.checks.resid_post_checked);
  EXPECT_EQ(a.checks.resid_post_failed, 0);
  EXPECT_EQ(a.checks.max_sum_relative_error, b.checks.max_sum_relative_error);
  EXPECT_EQ(a.applied, b.applied);
  ASSERT_EQ(a.prompt_logprobs.size(), b.prompt_logprobs.size());
  for (size_t k = 0; k < a.prompt_logprobs.size(); ++k) {
    EXPECT_EQ(a.prompt_logprobs[k].position, b.prompt_logprobs[k].position);
    EXPECT_EQ(a.prompt_logprobs[k].token.logprob,
              b.prompt_logprobs[k].token.logprob);
  }
}

TEST_P(DeterminismTest, BatchMixChunksAndThreadsChangeNoBit) {
  const auto alone_engine = Make(1);
  std::vector<TestSequence> alone;
  for (int64_t i = 0; i < 16; ++i) {
    alone.push_back(Sequence(i, *alone_engine));
    RunTogether(*alone_engine, {&alone.back()});
  }
  for (const int threads : {1, 2, 3}) {
    const auto engine = Make(threads);
    for (const size_t mix : {size_t{1}, size_t{2}, size_t{7}, size_t{16}}) {
      for (const int64_t chunk : {1, 3, 64, 512}) {
        std::vector<TestSequence> tests;
        for (size_t i = 0; i < mix; ++i) {
          tests.push_back(Sequence(static_cast<int64_t>(i), *engine));
        }
        std::vector<TestSequence*> pointers;
        for (TestSequence& test : tests) pointers.push_back(&test);
        RunTogether(*engine, pointers, {.chunk = chunk, .start_every = 2});
        for (size_t i = 0; i < mix; ++i) {
          SCOPED_TRACE(testing::Message()
                       << "threads " << threads << " mix " << mix << " chunk "
                       << chunk << " sequence " << i);
          ExpectSameBits(tests[i], alone[i]);
        }
      }
    }
  }
}

TEST_P(DeterminismTest, BeingWatchedChangesNoBit) {
  const auto engine = Make(2);
  TestSequence watched = Sequence(5, *engine);
  TestSequence unwatched = Sequence(5, *engine);
  unwatched.capture = {};
  TestSequence logits_only = Sequence(5, *engine);
  logits_only.capture.checks = false;
  logits_only.capture.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};

  RunTogether(*engine, {&watched});
  RunTogether(*engine, {&unwatched});
  RunTogether(*engine, {&logits_only});

  EXPECT_EQ(watched.generated, unwatched.generated);
  for (size_t i = 0; i < watched.sampled.size(); ++i) {
    EXPECT_EQ(watched.sampled[i].token.logprob,
              unwatched.sampled[i].token.logprob);
  }
  for (const auto& [key, values] : logits_only.rows.rows) {
    EXPECT_EQ(values, watched.rows.rows.at(key));
  }
}

TEST_P(DeterminismTest, APrefixFromTheCacheChangesNoBit) {
  const auto engine = Make(2);
  TestSequence first = Sequence(2, *engine);  // 77 prompt rows
  first.capture = {};
  first.prefix_salt = 7;
  TestSequence second = first;
  TestSequence other_salt = first;
  other_salt.prefix_salt = 8;

  RunTogether(*engine, {&first});
  RunTogether(*engine, {&second});
  RunTogether(*engine, {&other_salt});

  EXPECT_EQ(first.cached_rows, 0);
  EXPECT_EQ(second.cached_rows, 64);
  EXPECT_EQ(other_salt.cached_rows, 0);
  ExpectSameBits(second, first);
  ExpectSameBits(other_salt, first);
}

TEST_P(DeterminismTest, PromptRowsThatAreWatchedAreComputed) {
  const auto engine = Make(1);
  TestSequence first = Sequence(2, *engine);
  first.prefix_salt = 7;
  TestSequence last_row = first;
  last_row.capture.rows.prompt = {.last = true};

  RunTogether(*engine, {&first});
  TestSequence again = Sequence(2, *engine);
  again.prefix_salt = 7;
  RunTogether(*engine, {&again});
  RunTogether(*engine, {&last_row});

  EXPECT_EQ(again.cached_rows, 0);
  ExpectSameBits(again, first);
  EXPECT_EQ(last_row.cached_rows, 64);
}

TEST_P(DeterminismTest, EveryResidualIdentityIsExactInEveryMix) {
  const auto engine = Make(2);
  std::vector<TestSequence> tests;
  for (int64_t i = 0; i < 7; ++i) tests.push_back(Sequence(i, *engine));
  std::vector<TestSequence*> pointers;
  for (TestSequence& test : tests) pointers.push_back(&test);

  RunTogether(*engine, pointers, {.chunk = 13});

  for (const TestSequence& test : tests) {
    const auto rows = static_cast<int64_t>(test.prompt.size()) + 5;
    EXPECT_EQ(test.checks.rows_checked, rows);
    EXPECT_EQ(test.checks.resid_mid_failed, 0);
    EXPECT_EQ(test.checks.resid_post_failed, 0);
    EXPECT_EQ(test.checks.resid_mid_checked, rows * 2);
    // Five roundings of a float32 sum.
    EXPECT_LT(test.checks.max_sum_relative_error, 1e-6);
  }
}

// A mix whose sequences differ in all that a suspension or a draft must not
// touch: prompt log probabilities, interventions, penalties that look back, who
// shares.
std::vector<TestSequence> DeterminismTest::HardMix(const Engine& engine) const {
  std::vector<TestSequence> tests;
  for (int64_t i = 0; i < 7; ++i) {
    TestSequence& test = tests.emplace_back(Sequence(i, engine));
    test.max_tokens = 12;
    test.logprobs.prompt = i % 2 == 0;
    test.sampling.repetition_penalty = 1.2;
    if (i % 2 == 1) {
      test.capture.derived = {
          {.kind = DerivedKind::kLogitLens,
           .where = {.hook = HookPoint::kResidPost, .layers = {0, 1}},
           .top_k = 3}};
    }
    if (i % 3 != 0) test.prefix_salt = 7;
    if (i < 5) continue;
    test.interventions = {
        {.op = InterventionOp::kScale,
         .where = {.hook = HookPoint::kMlpOut, .layers = {0}},
         .rows = {.prompt = {.all = true}, .generated = {.all = true}},
         .value = 0.5f}};
  }
  return tests;
}

TEST_P(DeterminismTest, SuspensionsChangeNoBitAndReportNothingTwice) {
  const auto plain_engine = Make(2);
  std::vector<TestSequence> plain = HardMix(*plain_engine);
  for (TestSequence& test : plain) RunTogether(*plain_engine, {&test});
  struct Case {
    Schedule schedule;
    bool prefix_cache;
  };
  for (const Case& c :
       {Case{{.chunk = 512, .suspend_every = 1}, false},
        Case{{.chunk = 48, .start_every = 2, .suspend_every = 3}, true},
        Case{{.chunk = 17, .suspend_every = 11}, true}}) {
    const auto engine = Make(2, c.prefix_cache);
    std::vector<TestSequence> tests = HardMix(*engine);
    std::vector<TestSequence*> pointers;
    for (TestSequence& test : tests) pointers.push_back(&test);
    RunTogether(*engine, pointers, c.schedule);
    for (size_t i = 0; i < tests.size(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << "suspended every " << c.schedule.suspend_every
                   << " sequence " << i);
      ExpectSameReport(tests[i], plain[i]);
    }
  }
}

TEST_P(DeterminismTest, DraftsChangeNoBitAndLeaveNoTrace) {
  const auto engine = Make(2);
  std::vector<TestSequence> plain = HardMix(*engine);
  for (TestSequence& test : plain) RunTogether(*engine, {&test});
  struct Case {
    const char* name;
    int64_t drafts;
    int64_t wrong_every;  // 0: never
    int64_t suspend_every;
  };
  for (const Case& c :
       {Case{"all right", 4, 0, 0}, Case{"all wrong", 3, 1, 0},
        Case{"some wrong", 5, 4, 0}, Case{"and suspended", 3, 5, 2}}) {
    std::vector<TestSequence> tests = HardMix(*engine);
    std::vector<TestSequence*> pointers;
    for (size_t i = 0; i < tests.size(); ++i) {
      tests[i].guesses = plain[i].generated;
      for (size_t k = 0; k < tests[i].guesses.size() && c.wrong_every > 0;
           ++k) {
        if (static_cast<int64_t>(k + i) % c.wrong_every == 0) {
          tests[i].guesses[k] = (tests[i].guesses[k] + 1) % 250;
        }
      }
      pointers.push_back(&tests[i]);
    }
    RunTogether(
        *engine, pointers,
        {.chunk = 64, .suspend_every = c.suspend_every, .drafts = c.drafts});
    for (size_t i = 0; i < tests.size(); ++i) {
      SCOPED_TRACE(testing::Message() << c.name << " sequence " << i);
      ExpectSameReport(tests[i], plain[i]);
    }
  }
}

TEST_P(DeterminismTest, AnEndTokenEndsTheDraftsToo) {
  const auto engine = Make(1);
  TestSequence plain = Sequence(2, *engine);
  RunTogether(*engine, {&plain});
  SequenceOptions options{.prompt = plain.prompt, .max_rows = 100};
  options.rope = engine->model().rope;
  options.sampling = plain.sampling;
  options.end_token_ids = {plain.generated[1]};
  const SequenceId id{1};
  ASSERT_TRUE(engine->OpenSequence(id, options).ok());

  const auto result =
      engine->Step({.slices = {{.sequence = id,
                                .num_rows = std::ssize(plain.prompt),
                                .drafts = {plain.generated.begin(),
                                           plain.generated.begin() + 4}}}});

  ASSERT_TRUE(result.ok()) << result.status();
  const auto end = std::find(plain.generated.begin(), plain.generated.end(),
                             plain.generated[1]);
  EXPECT_EQ(std::ssize(result->sequences[0].sampled),
            end - plain.generated.begin() + 1);
  engine->CloseSequence(id);
}

TEST_P(DeterminismTest, DraftsHaveTheirPlace) {
  const auto engine = Make(1);
  SequenceOptions options{.prompt = {3, 4, 5}, .max_rows = 5};
  options.rope = engine->model().rope;
  const SequenceId id{1};
  ASSERT_TRUE(engine->OpenSequence(id, options).ok());
  const auto step = [&](SequenceSlice slice) {
    slice.sequence = id;
    return engine->Step({.slices = {std::move(slice)}}).status();
  };

  EXPECT_FALSE(step({.num_rows = 2, .drafts = {6}}).ok()) << "before the end";
  EXPECT_FALSE(step({.num_rows = 3, .sample = false, .drafts = {6}}).ok());
  EXPECT_FALSE(step({.num_rows = 3, .drafts = {6, 7, 8}}).ok()) << "max_rows";
  EXPECT_FALSE(step({.num_rows = 3, .drafts = {-1}}).ok());
  EXPECT_TRUE(step({.num_rows = 3, .drafts = {6, 7}}).ok());
  engine->CloseSequence(id);
}

TEST_P(DeterminismTest, ASuspendedSequenceHoldsNoBlockAndTakesNoStep) {
  const auto engine = Make(1, /*prefix_cache=*/false);
  SequenceOptions options{.prompt = {3, 4, 5}, .max_rows = 40};
  options.rope = engine->model().rope;
  const SequenceId id{1};
  ASSERT_TRUE(engine->OpenSequence(id, options).ok());
  EXPECT_EQ(engine->kv_cache().used_blocks, 3);

  engine->SuspendSequence(id);

  EXPECT_EQ(engine->kv_cache().used_blocks, 0);
  EXPECT_FALSE(
      engine->Step({.slices = {{.sequence = id, .num_rows = 3}}}).ok());
  ASSERT_TRUE(engine->ResumeSequence(id).ok());
  EXPECT_FALSE(engine->ResumeSequence(id).ok());
  EXPECT_EQ(engine->kv_cache().used_blocks, 3);
  EXPECT_TRUE(engine->Step({.slices = {{.sequence = id, .num_rows = 3}}}).ok());
  engine->SuspendSequence(id);
  engine->CloseSequence(id);
  EXPECT_EQ(engine->kv_cache().used_blocks, 0);
}

TEST_P(DeterminismTest, KeysAndValuesAreShownBeforeTheyAreRounded) {
  const auto engine = Make(1);
  TestSequence test = Sequence(5, *engine);
  RunTogether(*engine, {&test});
  for (const KvCacheDtypeLayout& layout : kKvCacheDtypes) {
    const auto other_engine = MakeEngine({.model_path = path_,
                                          .numerics = GetParam().numerics,
                                          .kv_cache_dtype = layout.dtype,
                                          .num_threads = 1});
    TestSequence other = Sequence(5, *other_engine);
    RunTogether(*other_engine, {&other});
    // The first layer's depend on no attention.
    for (const HookPoint hook :
         {HookPoint::kK, HookPoint::kKRotated, HookPoint::kV}) {
      for (int64_t p = 0; p < std::ssize(test.prompt); ++p) {
        EXPECT_EQ(test.rows.at(hook, 0, p), other.rows.at(hook, 0, p))
            << layout.name << " position " << p;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeterminismTest,
                         ::testing::Values(Kind{"Exact", Numerics::kExact},
                                           Kind{"Fast", Numerics::kFast},
                                           Kind{"FastBFloat16", Numerics::kFast,
                                                KvCacheDtype::kBF16}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headrace
