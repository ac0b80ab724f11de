#include "engine/rope/rope_validation.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/rope/rope_params.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

RopeParams Valid(RopeType type) {
  RopeParams params{.type = type,
                    .head_dim = 8,
                    .rotary_dim = 8,
                    .max_position_embeddings = 512};
  params.original_max_position_embeddings = 128;
  params.factor = 4;
  params.short_factor.assign(4, 1);
  params.long_factor.assign(4, 2);
  params.partial_rotary_factor = 0.5;
  return params;
}

std::vector<std::string> BadFields(const RopeParams& params) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ValidateRopeParams(params)) {
    fields.push_back(violation.field);
  }
  return fields;
}

constexpr RopeType kAllTypes[] = {RopeType::kDefault, RopeType::kLinear,
                                  RopeType::kNtk,     RopeType::kDynamicNtk,
                                  RopeType::kYarn,    RopeType::kLongRope,
                                  RopeType::kLlama3,  RopeType::kProportional};

TEST(RopeValidationTest, AcceptsEveryTypeWithItsFields) {
  for (RopeType type : kAllTypes) {
    EXPECT_THAT(BadFields(Valid(type)), IsEmpty()) << RopeTypeName(type);
  }
}

TEST(RopeValidationTest, ThetaMustBeFiniteAndAboveOne) {
  for (double theta : {1.0, 0.0, -5.0, kNan, kInf}) {
    RopeParams params = Valid(RopeType::kDefault);
    params.rope_theta = theta;
    EXPECT_THAT(BadFields(params), ElementsAre("rope_theta")) << theta;
  }
}

TEST(RopeValidationTest, RotaryDimMustBeEvenAndFitTheHead) {
  for (int64_t rotary_dim : {int64_t{0}, int64_t{-2}, int64_t{3}, int64_t{10},
                             std::numeric_limits<int64_t>::max()}) {
    RopeParams params = Valid(RopeType::kDefault);
    params.rotary_dim = rotary_dim;
    EXPECT_THAT(BadFields(params), ElementsAre("rotary_dim")) << rotary_dim;
  }
}

TEST(RopeValidationTest, NtkNeedsMoreThanOnePair) {
  for (RopeType type : {RopeType::kNtk, RopeType::kDynamicNtk}) {
    RopeParams params = Valid(type);
    params.rotary_dim = 2;
    EXPECT_THAT(BadFields(params), ElementsAre("rotary_dim"));
  }
}

TEST(RopeValidationTest, LengthsMustBePositive) {
  RopeParams params = Valid(RopeType::kYarn);
  params.max_position_embeddings = 0;
  params.original_max_position_embeddings = -1;

  EXPECT_THAT(BadFields(params),
              ElementsAre("max_position_embeddings",
                          "original_max_position_embeddings"));
}

TEST(RopeValidationTest, FactorMustBeFiniteAndAtLeastOne) {
  for (RopeType type : kAllTypes) {
    if (type == RopeType::kDefault) continue;
    for (double factor : {0.5, 0.0, -4.0, kNan, kInf}) {
      RopeParams params = Valid(type);
      params.factor = factor;
      EXPECT_THAT(BadFields(params), ElementsAre("factor"))
          << RopeTypeName(type) << " " << factor;
    }
  }
}

TEST(RopeValidationTest, MissingFactorIsNamed) {
  for (RopeType type : {RopeType::kLinear, RopeType::kNtk,
                        RopeType::kDynamicNtk, RopeType::kLlama3}) {
    RopeParams params = Valid(type);
    params.factor.reset();
    EXPECT_THAT(BadFields(params), ElementsAre("factor"));
  }
}

TEST(RopeValidationTest, ImpliedFactorMustExtendToo) {
  for (RopeType type : {RopeType::kYarn, RopeType::kLongRope}) {
    RopeParams params = Valid(type);
    params.factor.reset();
    params.original_max_position_embeddings = 1024;
    EXPECT_THAT(BadFields(params), ElementsAre("factor"));
  }
}

TEST(RopeValidationTest, YarnRangesAreChecked) {
  RopeParams params = Valid(RopeType::kYarn);
  params.attention_factor = -0.1;
  params.beta_fast = 0;
  params.beta_slow = kNan;
  params.mscale = kInf;
  params.mscale_all_dim = -1;

  EXPECT_THAT(BadFields(params),
              ElementsAre("attention_factor", "beta_fast", "beta_slow",
                          "mscale", "mscale_all_dim"));
}

TEST(RopeValidationTest, BetaFastMustReachBetaSlow) {
  RopeParams params = Valid(RopeType::kYarn);
  params.beta_slow = 33;  // against the default of 32

  EXPECT_THAT(BadFields(params), ElementsAre("beta_fast"));
}

TEST(RopeValidationTest, Llama3OrdersItsFactorsAndLengths) {
  RopeParams params = Valid(RopeType::kLlama3);
  params.low_freq_factor = 4;
  params.high_freq_factor = 4;
  params.original_max_position_embeddings = 512;

  EXPECT_THAT(
      BadFields(params),
      ElementsAre("high_freq_factor", "original_max_position_embeddings"));
}

TEST(RopeValidationTest, LongRopeListsHaveOneDivisorPerPair) {
  RopeParams params = Valid(RopeType::kLongRope);
  params.short_factor = {1, 1, 1};
  params.long_factor = {1, 0, kNan, 1};
  EXPECT_THAT(BadFields(params),
              ElementsAre("short_factor", "long_factor[1]", "long_factor[2]"));

  params = Valid(RopeType::kLongRope);
  params.long_factor.clear();
  EXPECT_THAT(BadFields(params), ElementsAre("long_factor"));
}

TEST(RopeValidationTest, ProportionalSpansTheWholeHead) {
  RopeParams params = Valid(RopeType::kProportional);
  params.rotary_dim = 4;
  EXPECT_THAT(BadFields(params), ElementsAre("rotary_dim"));

  params = Valid(RopeType::kProportional);
  for (double share : {0.0, 1.5, kNan}) {
    params.partial_rotary_factor = share;
    EXPECT_THAT(BadFields(params), ElementsAre("partial_rotary_factor"));
  }
}

TEST(RopeValidationTest, StoredDivisorsArePositiveOnePerPair) {
  RopeParams params = Valid(RopeType::kLlama3);
  params.stored_divisors = {1, 0, 2};

  EXPECT_THAT(BadFields(params),
              ElementsAre("stored_divisors", "stored_divisors[1]"));
}

TEST(RopeValidationTest, FieldsOfOtherMethodsAreNotChecked) {
  RopeParams params = Valid(RopeType::kLinear);
  params.beta_fast = kNan;
  params.long_factor = {-1};

  EXPECT_THAT(BadFields(params), IsEmpty());
}

TEST(ResolveRopeTest, ErrorNamesEveryFieldItsValueAndItsLimit) {
  RopeParams params = Valid(RopeType::kLinear);
  params.factor = 0.5;
  params.rope_theta = 1;
  const absl::Status status =
      ResolveRope(params, RopePairing::kHalfSplit, 0).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "rope_theta must be finite and above 1; is 1; factor must be "
            "finite and at least 1; is 0.5");
}

TEST(ResolveRopeTest, RefusesAContextLengthOutOfRange) {
  for (int64_t length : {int64_t{-1}, kMaxRopePositions + 1}) {
    const absl::Status status =
        ResolveRope(Valid(RopeType::kLinear), RopePairing::kHalfSplit, length)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("context_length"));
  }
}

TEST(ResolveRopeTest, EnormousFactorsKeepTheLengthInRange) {
  RopeParams params = Valid(RopeType::kYarn);
  params.factor = 1e300;
  const absl::StatusOr<EffectiveRope> rope =
      ResolveRope(params, RopePairing::kHalfSplit, 0);

  ASSERT_TRUE(rope.ok());
  EXPECT_EQ(rope->context_length, kMaxRopePositions);
}

}  // namespace
}  // namespace headrace
