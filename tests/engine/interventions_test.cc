// Changing rows inside a pass: what follows from it, that it stays within its
// own sequence, and that nothing of it is left behind.
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_harness.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/numerics_param.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

class InterventionsTest : public ::testing::TestWithParam<Numerics> {
 protected:
  void SetUp() override {
    const std::string path =
        WriteGgufModel(BuildTinyModel(), folder_.Join("tiny.gguf"),
                       {.dtype = DType::kQ8_0})
            .front();
    engine_ = MakeEngine(
        {.model_path = path, .numerics = GetParam(), .num_threads = 2});
    ASSERT_NE(engine_, nullptr);
  }

  TestSequence Sequence(std::vector<int32_t> prompt, int64_t max_tokens = 0) {
    TestSequence test;
    test.prompt = std::move(prompt);
    test.max_tokens = max_tokens;
    test.capture = CaptureEverything(*engine_);
    return test;
  }
  int64_t Width(HookPoint hook) const {
    return engine_->hooks()[static_cast<size_t>(hook)].width;
  }
  std::vector<float> Pattern(HookPoint hook, float scale) const {
    std::vector<float> vector(static_cast<size_t>(Width(hook)));
    for (size_t i = 0; i < vector.size(); ++i) {
      vector[i] = scale * static_cast<float>((i * 7 + 3) % 11 - 5.0);
    }
    return vector;
  }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

Intervention AllRows(InterventionOp op, HookPoint hook,
                     std::vector<int32_t> layers) {
  Intervention intervention{
      .op = op, .where = {.hook = hook, .layers = std::move(layers)}};
  intervention.rows.prompt.all = true;
  intervention.rows.generated.all = true;
  return intervention;
}

void ExpectSameRows(const TestSequence& a, const TestSequence& b) {
  EXPECT_EQ(a.generated, b.generated);
  ASSERT_EQ(a.rows.rows.size(), b.rows.rows.size());
  for (const auto& [key, values] : a.rows.rows) {
    ASSERT_EQ(values, b.rows.rows.at(key))
        << GetHookPointInfo(std::get<0>(key)).name << " layer "
        << std::get<1>(key) << " position " << std::get<2>(key);
  }
  EXPECT_EQ(a.rows.attention, b.rows.attention);
}

TEST_P(InterventionsTest, AReplacedEmbeddingIsAnotherToken) {
  TestSequence other = Sequence({40, 77, 91}, 5);
  RunTogether(*engine_, {&other});

  TestSequence test = Sequence({40, 8, 91}, 5);
  Intervention replace =
      AllRows(InterventionOp::kReplace, HookPoint::kEmbed, {-1});
  replace.rows = {};
  replace.rows.prompt.positions = {1};
  replace.vector = other.rows.at(HookPoint::kEmbed, -1, 1);
  test.interventions = {replace};
  RunTogether(*engine_, {&test});

  ExpectSameRows(test, other);
  EXPECT_EQ(test.applied, std::vector<int64_t>{1});
}

// Rows of a pass, as it showed them.
class RecordedRows final : public RowSource {
 public:
  explicit RecordedRows(const TestSequence& test) : rows_(test.rows.rows) {}
  std::span<const float> Find(HookPoint hook, int32_t layer,
                              int64_t position) const override {
    const auto found = rows_.find({hook, layer, position});
    return found == rows_.end() ? std::span<const float>() : found->second;
  }

 private:
  std::map<RowKeeper::Key, std::vector<float>> rows_;
};

TEST_P(InterventionsTest, RowsFromAnotherPassAreThoseRowsSentInline) {
  TestSequence source = Sequence({5, 66, 7, 80});
  RunTogether(*engine_, {&source});
  TestSequence inlined = Sequence({40, 8, 91, 17}, 5);
  for (const int32_t layer : {0, 1}) {
    for (const int64_t position : {1, 2}) {
      Intervention replace =
          AllRows(InterventionOp::kReplace, HookPoint::kAttnOut, {layer});
      replace.rows = {};
      replace.rows.prompt.positions = {position};
      replace.vector = source.rows.at(HookPoint::kAttnOut, layer, position + 1);
      inlined.interventions.push_back(std::move(replace));
    }
  }
  RunTogether(*engine_, {&inlined});

  TestSequence test = Sequence({40, 8, 91, 17}, 5);
  Intervention replace =
      AllRows(InterventionOp::kReplace, HookPoint::kAttnOut, {0, 1});
  replace.rows = {};
  replace.rows.prompt.positions = {1, 2};
  replace.from =
      RowsFrom{.source = std::make_shared<RecordedRows>(source), .offset = 1};
  test.interventions = {replace};
  RunTogether(*engine_, {&test});

  ExpectSameRows(test, inlined);
  EXPECT_EQ(test.applied, std::vector<int64_t>{4});
}

TEST_P(InterventionsTest, RowsThatTheOtherPassHasNotAreLeft) {
  TestSequence source = Sequence({5, 66});
  RunTogether(*engine_, {&source});
  TestSequence plain = Sequence({40, 8, 91, 17}, 5);
  RunTogether(*engine_, {&plain});

  TestSequence test = Sequence({40, 8, 91, 17}, 5);
  Intervention replace =
      AllRows(InterventionOp::kReplace, HookPoint::kResidPre, {1});
  replace.from =
      RowsFrom{.source = std::make_shared<RecordedRows>(source), .offset = 100};
  test.interventions = {replace};
  RunTogether(*engine_, {&test});

  ExpectSameRows(test, plain);
  EXPECT_EQ(test.applied, std::vector<int64_t>{0});
}

TEST_P(InterventionsTest, ZeroHeadsWriteNothing) {
  TestSequence test = Sequence({40, 8, 91, 17});
  test.interventions = {AllRows(InterventionOp::kZero, HookPoint::kZ, {1})};
  RunTogether(*engine_, {&test});

  const std::vector<float> zero(static_cast<size_t>(Width(HookPoint::kAttnOut)),
                                0.0f);
  for (int64_t p = 0; p < 4; ++p) {
    EXPECT_EQ(test.rows.at(HookPoint::kAttnOut, 1, p), zero);
    EXPECT_EQ(test.rows.at(HookPoint::kResidMid, 1, p),
              test.rows.at(HookPoint::kResidPre, 1, p));
    EXPECT_NE(test.rows.at(HookPoint::kAttnOut, 0, p), zero);
  }
  EXPECT_EQ(test.applied, std::vector<int64_t>{4});
}

// A key that was changed is the key in the cache: with all keys equal, a query
// weighs every value the same.
TEST_P(InterventionsTest, EqualKeysGiveTheMeanOfTheValues) {
  for (const HookPoint hook : {HookPoint::kK, HookPoint::kKRotated}) {
    TestSequence test = Sequence({40, 8, 91, 17});
    test.interventions = {AllRows(InterventionOp::kZero, hook, {0, 1})};
    RunTogether(*engine_, {&test});
    EXPECT_EQ(test.applied, std::vector<int64_t>{8});

    const int64_t head_dim = engine_->model().config.head_dim;
    const int64_t group = engine_->model().config.num_attention_heads /
                          engine_->model().config.num_key_value_heads;
    const std::vector<float>& z = test.rows.at(HookPoint::kZ, 1, 3);
    for (size_t i = 0; i < z.size(); ++i) {
      const int64_t head = static_cast<int64_t>(i) / head_dim;
      const size_t v = static_cast<size_t>(head / group * head_dim +
                                           static_cast<int64_t>(i) % head_dim);
      double mean = 0;
      for (int64_t p = 0; p < 4; ++p) {
        mean += test.rows.at(HookPoint::kV, 1, p)[v] / 4;
      }
      // Four products and sums in float32; values as integers are off by half a
      // step of 1 / 2896 of the greatest of a head, which is below 4 here.
      const bool integers =
          engine_->model().kv_cache_dtype != KvCacheDtype::kF32;
      EXPECT_NEAR(z[i], mean, integers ? 1e-3 : 1e-6 * (1 + std::abs(mean)));
    }
  }
}

// Queries are shown in another order of channels than they are computed in;
// writing the rows back that were read must change nothing.
TEST_P(InterventionsTest, WritingBackWhatWasReadChangesNoBit) {
  TestSequence plain = Sequence({40, 8, 91, 17});
  RunTogether(*engine_, {&plain});
  for (const HookPointState& state : engine_->hooks()) {
    if (!state.writable) continue;
    TestSequence test = Sequence({40, 8, 91, 17});
    const int32_t layer = GetHookPointInfo(state.hook).per_layer ? 1 : -1;
    for (int64_t p = 0; p < 4; ++p) {
      Intervention replace =
          AllRows(InterventionOp::kReplace, state.hook, {layer});
      replace.rows = {};
      replace.rows.prompt.positions = {p};
      replace.vector = plain.rows.at(state.hook, layer, p);
      test.interventions.push_back(std::move(replace));
    }
    RunTogether(*engine_, {&test});
    SCOPED_TRACE(GetHookPointInfo(state.hook).name);
    ExpectSameRows(test, plain);
    EXPECT_EQ(test.applied, (std::vector<int64_t>{1, 1, 1, 1}));
  }
}

TEST_P(InterventionsTest, SteeringCountsAsAWriteOnTheBus) {
  TestSequence test = Sequence({40, 8, 91}, 4);
  for (const HookPoint hook :
       {HookPoint::kResidPre, HookPoint::kAttnOut, HookPoint::kResidMid,
        HookPoint::kMlpOut, HookPoint::kResidPost}) {
    Intervention add = AllRows(InterventionOp::kAdd, hook, {0, 1});
    add.vector = Pattern(hook, 0.25f);
    add.value = 0.5f;
    test.interventions.push_back(std::move(add));
  }
  RunTogether(*engine_, {&test});

  EXPECT_EQ(test.checks.resid_mid_checked, 12);  // 6 rows, 2 layers
  EXPECT_EQ(test.checks.resid_mid_failed, 0);
  EXPECT_EQ(test.checks.resid_post_failed, 0);
  // A dozen roundings of a float32 sum.
  EXPECT_LT(test.checks.max_sum_relative_error, 2e-6);
  EXPECT_EQ(test.applied, std::vector<int64_t>(5, 12));
}

TEST_P(InterventionsTest, RowsAreShownAfterOrBefore) {
  Intervention add = AllRows(InterventionOp::kAdd, HookPoint::kResidPost, {0});
  add.vector = Pattern(HookPoint::kResidPost, 1);
  TestSequence after = Sequence({40, 8});
  after.interventions = {add};
  TestSequence before = after;
  before.capture.before_interventions = true;
  TestSequence plain = Sequence({40, 8});
  RunTogether(*engine_, {&after});
  RunTogether(*engine_, {&before});
  RunTogether(*engine_, {&plain});

  std::vector<float> expected = plain.rows.at(HookPoint::kResidPost, 0, 1);
  EXPECT_EQ(before.rows.at(HookPoint::kResidPost, 0, 1), expected);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += add.vector[i];
  EXPECT_EQ(after.rows.at(HookPoint::kResidPost, 0, 1), expected);
  // What follows is steered either way.
  EXPECT_EQ(before.rows.at(HookPoint::kResidPre, 1, 1), expected);
  EXPECT_EQ(after.rows.at(HookPoint::kLogits, -1, 1),
            before.rows.at(HookPoint::kLogits, -1, 1));
}

TEST_P(InterventionsTest, NeighboursKeepTheirBits) {
  const auto make = [&](int i) {
    TestSequence test = Sequence({40 + i, 8, 91, 17, 60 + i, 33}, 6);
    if (i == 0) return test;
    Intervention add = AllRows(InterventionOp::kAdd, HookPoint::kResidMid, {0});
    add.vector = Pattern(HookPoint::kResidMid, static_cast<float>(i));
    Intervention project =
        AllRows(InterventionOp::kProjectOut, HookPoint::kMlpOut, {1});
    project.vector = Pattern(HookPoint::kMlpOut, 1);
    Intervention scale = AllRows(InterventionOp::kScale, HookPoint::kQ, {1});
    scale.value = 1.0f / static_cast<float>(i);
    test.interventions = {add, project, scale};
    return test;
  };
  std::vector<TestSequence> alone;
  for (int i = 0; i < 4; ++i) {
    alone.push_back(make(i));
    RunTogether(*engine_, {&alone.back()});
  }
  for (const int64_t chunk : {1, 4, 512}) {
    std::vector<TestSequence> together;
    for (int i = 0; i < 4; ++i) together.push_back(make(i));
    RunTogether(*engine_,
                {&together[0], &together[1], &together[2], &together[3]},
                {.chunk = chunk, .start_every = 1});
    for (size_t i = 0; i < 4; ++i) {
      ExpectSameRows(together[i], alone[i]);
      EXPECT_EQ(together[i].applied, alone[i].applied);
    }
  }
  EXPECT_NE(alone[1].generated, alone[0].generated);
}

TEST_P(InterventionsTest, SteeredKeysAndValuesAreNeverShared) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 50; ++i) prompt.push_back(3 + (i * 17) % 250);
  TestSequence plain = Sequence(prompt, 4);
  plain.capture = {};
  RunTogether(*engine_, {&plain});
  TestSequence steered = plain;
  steered.generated.clear();
  steered.prefix_salt = 1;
  Intervention add = AllRows(InterventionOp::kAdd, HookPoint::kResidPre, {0});
  add.vector = Pattern(HookPoint::kResidPre, 3);
  steered.interventions = {add};
  RunTogether(*engine_, {&steered});
  EXPECT_NE(steered.generated, plain.generated);

  TestSequence after = plain;
  after.generated.clear();
  after.prefix_salt = 1;
  RunTogether(*engine_, {&after});
  EXPECT_EQ(after.cached_rows, 0);
  EXPECT_EQ(after.generated, plain.generated);

  // And what plain requests left behind is not read by a steered one.
  TestSequence again = steered;
  again.generated.clear();
  RunTogether(*engine_, {&again});
  EXPECT_EQ(again.cached_rows, 0);
  EXPECT_EQ(again.generated, steered.generated);
}

TEST_P(InterventionsTest, WhatDoesNotFitIsRefused) {
  const auto open = [&](const Intervention& intervention) {
    SequenceOptions options;
    options.prompt = {40};
    options.max_rows = 1;
    options.rope = engine_->model().rope;
    options.interventions = {intervention};
    return engine_->OpenSequence(SequenceId{999}, std::move(options))
        .status()
        .ToString();
  };
  Intervention short_vector =
      AllRows(InterventionOp::kAdd, HookPoint::kResidPre, {0});
  short_vector.vector = {1, 2, 3};
  EXPECT_NE(open(short_vector).find("resid_pre has 3 values; the hook has 32"),
            std::string::npos)
      << open(short_vector);
  EXPECT_NE(open(AllRows(InterventionOp::kZero, HookPoint::kLogits, {-1}))
                .find("logits cannot be changed"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Numerics, InterventionsTest,
                         ::testing::Values(Numerics::kExact, Numerics::kFast),
                         NumericsName);

}  // namespace
}  // namespace headrace
