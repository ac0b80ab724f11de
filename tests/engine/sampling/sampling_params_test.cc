#include "engine/sampling/sampling_params.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfF = std::numeric_limits<float>::infinity();

std::vector<std::string> Lines(const SamplingParams& params,
                               int64_t vocab_size = 49152) {
  std::vector<std::string> lines;
  for (const FieldViolation& violation :
       ValidateSamplingParams(params, vocab_size)) {
    lines.push_back(violation.field + " " + violation.description);
  }
  return lines;
}

TEST(SamplingParamsTest, DefaultsAreValid) {
  EXPECT_THAT(Lines({}), IsEmpty());
}

TEST(SamplingParamsTest, EndsOfEachRangeAreValid) {
  EXPECT_THAT(Lines({.temperature = -0.0,
                     .top_k = std::numeric_limits<int64_t>::max(),
                     .top_p = 1e-45,
                     .min_p = 1,
                     .typical_p = std::numeric_limits<double>::denorm_min(),
                     .repetition_penalty = 1e-300,
                     .presence_penalty = -1e300,
                     .frequency_penalty = 1e300,
                     .logit_bias = {{0, -kInfF}, {49151, 3e38F}},
                     .allowed_token_ids = {49151, 0, 0},
                     .seed = std::numeric_limits<uint64_t>::max()}),
              IsEmpty());
}

// ohdearquant/lattice#297: a NaN passes every `x <= 0` check.
TEST(SamplingParamsTest, EveryViolationIsReportedAtOnce) {
  EXPECT_THAT(
      Lines({.temperature = kNan,
             .top_k = -1,
             .top_p = kNan,
             .min_p = 1.5,
             .typical_p = -1,
             .repetition_penalty = 0,
             .presence_penalty = kInf,
             .frequency_penalty = -kInf,
             .logit_bias = {{7, kNanF}}}),
      ElementsAre("temperature must be finite and at least 0; is nan",
                  "top_k must be at least 0; is -1",
                  "top_p must be in (0, 1]; is nan",
                  "min_p must be in [0, 1]; is 1.5",
                  "typical_p must be in (0, 1]; is -1",
                  "repetition_penalty must be finite and above 0; is 0",
                  "presence_penalty must be finite; is inf",
                  "frequency_penalty must be finite; is -inf",
                  "logit_bias[0].bias must be finite, or -infinity to ban; is "
                  "nan"));
}

TEST(SamplingParamsTest, EveryNonFiniteValueIsRefused) {
  for (const double bad : {kNan, kInf, -kInf}) {
    EXPECT_EQ(Lines({.temperature = bad}).size(), 1);
    EXPECT_EQ(Lines({.top_p = bad}).size(), 1);
    EXPECT_EQ(Lines({.min_p = bad}).size(), 1);
    EXPECT_EQ(Lines({.typical_p = bad}).size(), 1);
    EXPECT_EQ(Lines({.repetition_penalty = bad}).size(), 1);
    EXPECT_EQ(Lines({.presence_penalty = bad}).size(), 1);
    EXPECT_EQ(Lines({.frequency_penalty = bad}).size(), 1);
  }
  EXPECT_EQ(Lines({.logit_bias = {{0, kInfF}}}).size(), 1);
}

TEST(SamplingParamsTest, JustOutsideEachRangeIsRefused) {
  EXPECT_EQ(Lines({.temperature = -1e-300}).size(), 1);
  EXPECT_EQ(Lines({.top_p = 0}).size(), 1);
  EXPECT_EQ(Lines({.top_p = 1.0000001}).size(), 1);
  EXPECT_EQ(Lines({.min_p = -1e-9}).size(), 1);
  EXPECT_EQ(Lines({.typical_p = 0}).size(), 1);
  EXPECT_EQ(Lines({.repetition_penalty = -1}).size(), 1);
}

// vllm-project/vllm#51795: ids beyond the vocabulary.
TEST(SamplingParamsTest, IdsMustBeInTheVocabulary) {
  EXPECT_THAT(
      Lines({.logit_bias = {{49151, 1}, {49152, 1}, {-1, 1}},
             .allowed_token_ids = {5, 2147483647}}),
      ElementsAre("logit_bias[1].token_id must be in [0, 49152); is 49152",
                  "logit_bias[2].token_id must be in [0, 49152); is -1",
                  "allowed_token_ids[1] must be in [0, 49152); is 2147483647"));
}

TEST(SamplingParamsTest, AnIdIsBiasedOnce) {
  EXPECT_THAT(Lines({.logit_bias = {{5, 1}, {6, 1}, {5, 1}}}),
              ElementsAre("logit_bias[2].token_id must be given once; 5 is "
                          "also in logit_bias[0]"));
}

TEST(SamplingParamsTest, ZeroAndDenormalTemperaturesAreGreedy) {
  EXPECT_TRUE(IsGreedy({.temperature = 0}));
  EXPECT_TRUE(IsGreedy({.temperature = -0.0}));
  EXPECT_TRUE(IsGreedy({.temperature = 1e-45}));
  EXPECT_TRUE(IsGreedy({.temperature = 1e-310}));
  EXPECT_FALSE(IsGreedy({.temperature = 1e-37}));
  EXPECT_FALSE(IsGreedy({}));
}

}  // namespace
}  // namespace headrace
