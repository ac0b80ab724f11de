#include "engine/rope/extension.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using Kind = RopeRequest::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// stories260K: 512 positions, unscaled.
RopeParams SmallModel() {
  return {.rope_theta = 1e4,
          .head_dim = 8,
          .rotary_dim = 8,
          .max_position_embeddings = 512};
}

RopeParams Llama3Model() {
  RopeParams params = SmallModel();
  params.type = RopeType::kLlama3;
  params.factor = 8;
  params.original_max_position_embeddings = 64;
  return params;
}

RopeRequest Scaling(RopeType type, double factor) {
  RopeRequest request{.kind = Kind::kScaling};
  request.scaling.type = type;
  request.scaling.factor = factor;
  return request;
}

EffectiveRope Resolve(const RopeParams& file, const RopeRequest& request,
                      int64_t needed = 100) {
  RopeResolution resolution =
      ResolveExtension(&file, RopePairing::kInterleaved, request, needed);
  for (const FieldViolation& violation : resolution.violations) {
    ADD_FAILURE() << violation.field << " " << violation.description;
  }
  return resolution.rope.value_or(EffectiveRope{});
}

EffectiveRope OfFile(const RopeParams& file) {
  return *ResolveRope(file, RopePairing::kInterleaved, 0);
}

std::vector<std::string> Violations(const RopeParams& file,
                                    const RopeRequest& request,
                                    int64_t needed = 100) {
  const RopeResolution resolution =
      ResolveExtension(&file, RopePairing::kInterleaved, request, needed);
  EXPECT_EQ(resolution.rope.has_value(), resolution.violations.empty());
  std::vector<std::string> lines;
  for (const FieldViolation& violation : resolution.violations) {
    lines.push_back(violation.field + " " + violation.description);
  }
  return lines;
}

TEST(ExtensionTest, UnsetKeepsTheFilesScaling) {
  for (const RopeParams& file : {SmallModel(), Llama3Model()}) {
    const EffectiveRope rope = Resolve(file, {});
    EXPECT_EQ(rope.hash, OfFile(file).hash);
    EXPECT_EQ(rope.params, OfFile(file).params);
    EXPECT_EQ(rope.context_length, 512);
  }
}

TEST(ExtensionTest, NoneIsTheUnscaledBase) {
  const EffectiveRope rope = Resolve(Llama3Model(), {.kind = Kind::kNone});

  EXPECT_EQ(rope.params.type, RopeType::kDefault);
  EXPECT_EQ(rope.hash, OfFile(SmallModel()).hash);
  EXPECT_EQ(rope.context_length, 512);
}

// ggml-org/llama.cpp#17459: the window grows with the scaling that was asked.
TEST(ExtensionTest, ScalingExtendsTheWindow) {
  for (RopeType type : {RopeType::kLinear, RopeType::kNtk, RopeType::kYarn}) {
    EXPECT_EQ(Resolve(SmallModel(), Scaling(type, 4)).context_length, 2048);
  }
  RopeRequest request = Scaling(RopeType::kLinear, 4);
  request.max_context = 2048;
  EXPECT_EQ(Resolve(SmallModel(), request).context_length, 2048);
  request.max_context = 600;
  EXPECT_EQ(Resolve(SmallModel(), request).context_length, 600);
}

// unslothai/unsloth#7028: the model's own theta stays.
TEST(ExtensionTest, ScalingKeepsTheModelsBase) {
  RopeParams file = SmallModel();
  file.rope_theta = 100000;
  file.head_dim = 64;
  file.rotary_dim = 64;
  const EffectiveRope rope = Resolve(file, Scaling(RopeType::kLinear, 2));

  EXPECT_EQ(rope.params.rope_theta, 100000);
  EXPECT_NEAR(rope.inv_freqs[1], 0.3489152924, 1e-10);
}

// ggml-org/llama.cpp#3418: never scaled twice.
TEST(ExtensionTest, ScalingReplacesTheFilesOwn) {
  const EffectiveRope rope =
      Resolve(Llama3Model(), Scaling(RopeType::kLinear, 2));

  EXPECT_EQ(rope.params.type, RopeType::kLinear);
  EXPECT_EQ(rope.params.original_max_position_embeddings, 64);
  EXPECT_EQ(rope.context_length, 128);
  EXPECT_EQ(rope.inv_freqs[3], OfFile(SmallModel()).inv_freqs[3] / 2);
  EXPECT_EQ(rope.params.low_freq_factor, std::nullopt);
}

TEST(ExtensionTest, ScalingReplacesStoredDivisors) {
  RopeParams file = SmallModel();
  file.type = RopeType::kLlama3;
  file.stored_divisors = {1, 1, 8, 8};
  const EffectiveRope rope = Resolve(file, Scaling(RopeType::kLinear, 2));

  EXPECT_EQ(rope.inv_freqs[3], OfFile(SmallModel()).inv_freqs[3] / 2);
  // The window over the largest divisor: the file does not say.
  EXPECT_EQ(rope.params.original_max_position_embeddings, 64);
}

TEST(ExtensionTest, ThetaOverridesTheBaseOfAnyKind) {
  for (Kind kind : {Kind::kUnset, Kind::kNone, Kind::kAuto}) {
    const EffectiveRope rope =
        Resolve(SmallModel(), {.kind = kind, .rope_theta = 5e5});
    EXPECT_EQ(rope.params.rope_theta, 5e5);
    EXPECT_NEAR(rope.inv_freqs[2], std::pow(5e5, -0.5), 1e-15);
  }
  RopeRequest request = Scaling(RopeType::kLinear, 2);
  request.rope_theta = 5e5;
  EXPECT_EQ(Resolve(SmallModel(), request).params.rope_theta, 5e5);
}

TEST(ExtensionTest, OriginalLengthOfTheRequestWins) {
  RopeRequest request = Scaling(RopeType::kYarn, 4);
  request.scaling.original_max_position_embeddings = 128;
  const EffectiveRope rope = Resolve(SmallModel(), request);

  EXPECT_NEAR(rope.inv_freqs[1], 0.0625, 1e-15);
  EXPECT_EQ(rope.context_length, 512);
}

TEST(ExtensionTest, YarnFactorFollowsFromMaxContext) {
  RopeRequest request{.kind = Kind::kScaling, .max_context = 2048};
  request.scaling.type = RopeType::kYarn;
  EXPECT_EQ(Resolve(SmallModel(), request).params.factor, 4);

  request.max_context = 0;
  EXPECT_THAT(Violations(SmallModel(), request),
              ElementsAre(HasSubstr("rope_scaling.yarn.factor is missing")));
}

TEST(ExtensionTest, Llama3ServesTheExtendedLength) {
  const EffectiveRope rope =
      Resolve(SmallModel(), Scaling(RopeType::kLlama3, 4));

  EXPECT_EQ(rope.context_length, 2048);
  EXPECT_EQ(rope.params.original_max_position_embeddings, 512);
}

// awslabs/keys_values#12: keys in the cache are rotated, by one factor per
// sequence.
TEST(ExtensionTest, DynamicNtkIsFrozenAtWhatIsNeeded) {
  const RopeRequest request = Scaling(RopeType::kDynamicNtk, 4);
  const EffectiveRope brief = Resolve(SmallModel(), request, 512);
  const EffectiveRope longer = Resolve(SmallModel(), request, 1000);

  EXPECT_EQ(brief.hash, OfFile(SmallModel()).hash);  // unscaled
  EXPECT_EQ(longer.context_length, 1000);
  EXPECT_NE(longer.hash, brief.hash);
  EXPECT_EQ(Resolve(SmallModel(), request, 1 << 20).context_length, 2048);
  RopeRequest open_ended = request;
  open_ended.open_ended = true;
  EXPECT_EQ(Resolve(SmallModel(), open_ended, 5).context_length, 2048);
  RopeRequest fixed = request;
  fixed.max_context = 1000;
  EXPECT_EQ(Resolve(SmallModel(), fixed, 5).hash, longer.hash);
}

// It stretches from the file's original length, not from its window.
TEST(ExtensionTest, DynamicNtkOnAScaledModelStartsAtTheOriginalLength) {
  const EffectiveRope rope =
      Resolve(Llama3Model(), Scaling(RopeType::kDynamicNtk, 4), 128);

  EXPECT_EQ(rope.params.max_position_embeddings, 64);
  EXPECT_EQ(rope.context_length, 128);
}

// ggml-org/llama.cpp#8995: short prompts get the short factors.
TEST(ExtensionTest, LongRopeListFollowsWhatIsNeeded) {
  RopeRequest request = Scaling(RopeType::kLongRope, 4);
  request.scaling.short_factor = {1, 1, 1, 1};
  request.scaling.long_factor = {1, 2, 3, 4};

  EXPECT_EQ(Resolve(SmallModel(), request, 512).context_length, 512);
  EXPECT_EQ(Resolve(SmallModel(), request, 512).inv_freqs,
            OfFile(SmallModel()).inv_freqs);
  EXPECT_EQ(Resolve(SmallModel(), request, 513).context_length, 2048);
  EXPECT_DOUBLE_EQ(Resolve(SmallModel(), request, 513).inv_freqs[3],
                   OfFile(SmallModel()).inv_freqs[3] / 4);
}

TEST(ExtensionTest, AutoIsNothingWhenItFits) {
  for (const RopeParams& file : {SmallModel(), Llama3Model()}) {
    EXPECT_EQ(Resolve(file, {.kind = Kind::kAuto}, 512).hash,
              OfFile(file).hash);
  }
}

TEST(ExtensionTest, AutoIsTheMildestYarnThatFits) {
  for (int64_t needed : {513, 600, 777, 4096, 9999}) {
    const EffectiveRope rope =
        Resolve(SmallModel(), {.kind = Kind::kAuto}, needed);
    EXPECT_EQ(rope.params.type, RopeType::kYarn);
    EXPECT_DOUBLE_EQ(rope.params.factor.value_or(0),
                     static_cast<double>(needed) / 512);
    EXPECT_EQ(rope.context_length, needed);
  }
}

TEST(ExtensionTest, AutoFitsMaxContextWhenItIsGiven) {
  const EffectiveRope rope =
      Resolve(SmallModel(), {.kind = Kind::kAuto, .max_context = 1024}, 600);

  EXPECT_EQ(rope.params.factor, 2);
  EXPECT_EQ(rope.context_length, 1024);
}

TEST(ExtensionTest, AutoNeverWeakensTheFilesScaling) {
  // 600 positions are more than the window, and less than 32 * 64.
  RopeParams file = Llama3Model();
  file.factor = 32;
  const EffectiveRope rope = Resolve(file, {.kind = Kind::kAuto}, 600);
  EXPECT_EQ(rope.params.type, RopeType::kYarn);
  EXPECT_EQ(rope.params.factor, 32);
  EXPECT_EQ(rope.params.original_max_position_embeddings, 64);

  RopeParams yarn = SmallModel();
  yarn.type = RopeType::kYarn;
  yarn.factor = 4;
  yarn.beta_fast = 16;
  EXPECT_EQ(Resolve(yarn, {.kind = Kind::kAuto}, 2048).hash, OfFile(yarn).hash);
  const EffectiveRope beyond = Resolve(yarn, {.kind = Kind::kAuto}, 4096);
  EXPECT_EQ(beyond.params.factor, 8);
  EXPECT_EQ(beyond.params.beta_fast, 16);  // as the model was trained

  RopeParams stored = SmallModel();
  stored.type = RopeType::kLlama3;
  stored.stored_divisors = {1, 1, 8, 8};
  EXPECT_EQ(Resolve(stored, {.kind = Kind::kAuto}, 1024).params.factor, 16);
}

TEST(ExtensionTest, MaxContextIsHeldToWhatTheMethodServes) {
  EXPECT_THAT(Violations(SmallModel(), {.max_context = 600}),
              ElementsAre("max_context must be at most 512, what the model "
                          "serves without scaling; is 600"));
  RopeRequest linear = Scaling(RopeType::kLinear, 4);
  linear.max_context = 2049;
  EXPECT_THAT(Violations(SmallModel(), linear),
              ElementsAre("max_context must be at most 2048, what linear "
                          "scaling of factor 4 serves; is 2049"));
  RopeRequest dynamic = Scaling(RopeType::kDynamicNtk, 2);
  dynamic.max_context = 2048;
  EXPECT_THAT(Violations(SmallModel(), dynamic),
              ElementsAre(HasSubstr("must be at most 1024")));
  EXPECT_THAT(Violations(SmallModel(), {.max_context = -1}),
              ElementsAre(HasSubstr("max_context must be from 0")));
  EXPECT_THAT(Violations(SmallModel(), {.max_context = 512}), IsEmpty());
}

TEST(ExtensionTest, OriginalLengthMustBeBelowTheExtendedOne) {
  RopeRequest request = Scaling(RopeType::kYarn, 4);
  request.max_context = 1000;
  request.scaling.original_max_position_embeddings = 1000;
  EXPECT_THAT(
      Violations(SmallModel(), request),
      ElementsAre("rope_scaling.yarn.original_max_position_embeddings must be "
                  "below max_context (1000); is 1000"));

  request.scaling.original_max_position_embeddings.reset();
  request.max_context = 512;
  const std::string too_short =
      "max_context must be above the original length (512) to extend it; is ";
  EXPECT_THAT(Violations(SmallModel(), request),
              ElementsAre(too_short + "512"));
  request.scaling.factor.reset();  // 1 by max_context
  EXPECT_THAT(Violations(SmallModel(), request),
              ElementsAre(too_short + "512"));
  request.max_context = 100;
  EXPECT_THAT(Violations(SmallModel(), request),
              ElementsAre(too_short + "100"));
}

TEST(ExtensionTest, MaxContextMayChooseTheShortListOfLongRope) {
  RopeRequest request = Scaling(RopeType::kLongRope, 4);
  request.scaling.short_factor = {1, 1, 1, 1};
  request.scaling.long_factor = {1, 2, 3, 4};
  request.max_context = 512;

  EXPECT_EQ(Resolve(SmallModel(), request, 5).inv_freqs,
            OfFile(SmallModel()).inv_freqs);
  request.max_context = 513;
  EXPECT_NE(Resolve(SmallModel(), request, 5).inv_freqs,
            OfFile(SmallModel()).inv_freqs);
}

TEST(ExtensionTest, MeaninglessFactorsAreRefused) {
  for (double factor : {0.5, -1.0, std::numeric_limits<double>::quiet_NaN(),
                        std::numeric_limits<double>::infinity()}) {
    for (const auto& [type, field] :
         {std::pair(RopeType::kLinear, "rope_scaling.linear.factor"),
          std::pair(RopeType::kNtk, "rope_scaling.ntk.factor"),
          std::pair(RopeType::kDynamicNtk, "rope_scaling.dynamic_ntk.factor"),
          std::pair(RopeType::kYarn, "rope_scaling.yarn.factor"),
          std::pair(RopeType::kLlama3, "rope_scaling.llama3.factor")}) {
      const std::vector<std::string> lines =
          Violations(SmallModel(), Scaling(type, factor));
      ASSERT_FALSE(lines.empty());
      EXPECT_THAT(lines[0], HasSubstr(field));
    }
  }
}

// Each in its range, and together too large for a rotation to mean anything.
TEST(ExtensionTest, WhatOverflowsIsRefused) {
  RopeRequest magnitude = Scaling(RopeType::kYarn, 4);
  magnitude.scaling.attention_factor = 1e30;
  RopeRequest terms = Scaling(RopeType::kYarn, 4);
  terms.scaling.mscale = 1e300;
  terms.scaling.mscale_all_dim = 1e-300;
  RopeRequest ramp = Scaling(RopeType::kYarn, 4);
  ramp.scaling.beta_fast = ramp.scaling.beta_slow = 5e-324;
  RopeRequest divisors = Scaling(RopeType::kLongRope, 4);
  divisors.scaling.short_factor = {1e-300, 1, 1, 1};
  divisors.scaling.long_factor = {1, 1, 1, 1};

  EXPECT_THAT(
      Violations(SmallModel(), magnitude),
      ElementsAre(HasSubstr("rope_scaling.yarn gives an attention factor that "
                            "must be at most 10000; is 1e+30")));
  EXPECT_THAT(Violations(SmallModel(), terms),
              ElementsAre(HasSubstr("attention factor")));
  EXPECT_THAT(Violations(SmallModel(), ramp),
              ElementsAre(HasSubstr("frequencies that must be finite")));
  EXPECT_THAT(Violations(SmallModel(), divisors),
              ElementsAre(HasSubstr("that of pair 0 is 1e+300")));
}

TEST(ExtensionTest, ParametersOfAnotherMethodAreRefused) {
  RopeRequest yarn = Scaling(RopeType::kYarn, 4);
  yarn.scaling.low_freq_factor = std::nan("");
  RopeRequest linear = Scaling(RopeType::kLinear, 4);
  linear.scaling.short_factor = {1, 1, 1, 1};

  EXPECT_THAT(Violations(SmallModel(), yarn),
              ElementsAre("rope_scaling.yarn.low_freq_factor cannot be set: "
                          "yarn scaling does not take it"));
  EXPECT_THAT(Violations(SmallModel(), linear),
              ElementsAre(HasSubstr("linear.short_factor cannot be set")));
}

// At the trained length nothing is stretched, by whatever factor.
TEST(ExtensionTest, DynamicNtkOfAnyFactorKeepsTheTrainedLengthUnscaled) {
  for (const double factor : {4.0, 1e15, 1e18, 1e300}) {
    const EffectiveRope rope =
        Resolve(SmallModel(), Scaling(RopeType::kDynamicNtk, factor));
    EXPECT_EQ(rope.inv_freqs, OfFile(SmallModel()).inv_freqs) << factor;
  }
}

TEST(ExtensionTest, UnequalFactorListsAreRefused) {
  RopeRequest request = Scaling(RopeType::kLongRope, 4);
  request.scaling.short_factor = {1, 1, 1, 1};
  request.scaling.long_factor = {1, 2, 3};

  EXPECT_THAT(Violations(SmallModel(), request),
              ElementsAre("rope_scaling.longrope.long_factor must have "
                          "rotary_dim / 2 = 4 values; has 3"));
}

TEST(ExtensionTest, EveryViolationIsReportedAtOnce) {
  RopeRequest request = Scaling(RopeType::kYarn, 0.5);
  request.scaling.beta_fast = -1;
  request.scaling.original_max_position_embeddings = 0;
  request.rope_theta = 1;
  request.max_context = -3;

  EXPECT_THAT(
      Violations(SmallModel(), request),
      ElementsAre(
          HasSubstr("rope_theta must be"),
          HasSubstr("rope_scaling.yarn.original_max_position_embeddings"),
          HasSubstr("rope_scaling.yarn.factor"),
          HasSubstr("rope_scaling.yarn.beta_fast"),
          HasSubstr("rope_scaling.yarn.beta_fast"), HasSubstr("max_context")));
}

TEST(ExtensionTest, UnscaledByNameMayGoBeyondTheTrainedLength) {
  const RopeParams model = SmallModel();
  const int64_t beyond = 4 * model.max_position_embeddings;

  const RopeResolution none =
      ResolveExtension(&model, RopePairing::kHalfSplit,
                       {.kind = Kind::kNone, .max_context = beyond}, 10);

  ASSERT_TRUE(none.rope.has_value());
  EXPECT_EQ(none.rope->context_length, beyond);
  EXPECT_THAT(Violations(model, {.max_context = beyond}),
              ElementsAre(HasSubstr("max_context")));
}

TEST(ExtensionTest, AutoBeyondAllPositionsIsRefused) {
  EXPECT_THAT(
      Violations(SmallModel(), {.kind = Kind::kAuto}, kMaxRopePositions + 1),
      ElementsAre(HasSubstr("rope_scaling.auto")));
}

TEST(ExtensionTest, ModelWithoutRopeHasNothingToExtend) {
  const auto resolve = [](const RopeRequest& request) {
    return ResolveExtension(nullptr, RopePairing::kHalfSplit, request, 10);
  };
  EXPECT_EQ(resolve({}).rope, std::nullopt);
  EXPECT_THAT(resolve({}).violations, IsEmpty());
  RopeRequest request = Scaling(RopeType::kLinear, 2);
  request.rope_theta = 5e5;
  request.max_context = 100;
  const RopeResolution resolution = resolve(request);
  ASSERT_EQ(resolution.violations.size(), 3);
  EXPECT_EQ(resolution.violations[0].field, "rope_scaling");
  EXPECT_EQ(resolution.violations[1].field, "rope_theta");
  EXPECT_EQ(resolution.violations[2].field, "max_context");
}

}  // namespace
}  // namespace headrace
