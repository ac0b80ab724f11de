// What must hold for any rotary encoding, seen through a plain scalar
// rotation in float64.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "engine/rope/rope_params.h"
#include "engine/rope/scaling_methods.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using Vector = std::vector<double>;

Vector Rotate(const EffectiveRope& rope, Vector x, double position) {
  const size_t num_pairs = rope.inv_freqs.size();
  for (size_t i = 0; i < num_pairs; ++i) {
    const bool half = rope.pairing == RopePairing::kHalfSplit;
    double& a = x[half ? i : 2 * i];
    double& b = x[half ? i + num_pairs : 2 * i + 1];
    const double cos =
        std::cos(position * rope.inv_freqs[i]) * rope.attention_factor;
    const double sin =
        std::sin(position * rope.inv_freqs[i]) * rope.attention_factor;
    const double rotated = a * cos - b * sin;
    b = a * sin + b * cos;
    a = rotated;
  }
  return x;
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

RopeParams Base(int64_t head_dim) {
  return {.head_dim = head_dim,
          .rotary_dim = head_dim,
          .max_position_embeddings = 4096};
}

// `type` with every field that it needs.
RopeParams Scaled(RopeType type, double factor, int64_t head_dim = 16) {
  RopeParams params = Base(head_dim);
  params.type = type;
  params.factor = factor;
  params.original_max_position_embeddings =
      type == RopeType::kLlama3 ? 1024 : 4096;
  if (type == RopeType::kProportional) params.partial_rotary_factor = 1;
  if (type == RopeType::kLongRope) {
    const auto num_pairs = static_cast<size_t>(head_dim / 2);
    params.short_factor.assign(num_pairs, 1);
    params.long_factor.assign(num_pairs, factor);
  }
  return params;
}

EffectiveRope Resolve(const RopeParams& params,
                      RopePairing pairing = RopePairing::kHalfSplit,
                      int64_t context_length = 0) {
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(params, pairing, context_length);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.value_or(EffectiveRope{});
}

class EveryTypeTest : public testing::TestWithParam<RopeType> {};

INSTANTIATE_TEST_SUITE_P(
    Rope, EveryTypeTest,
    testing::Values(RopeType::kDefault, RopeType::kLinear, RopeType::kNtk,
                    RopeType::kDynamicNtk, RopeType::kYarn, RopeType::kLongRope,
                    RopeType::kLlama3, RopeType::kProportional),
    [](const auto& info) { return std::string(RopeTypeName(info.param)); });

// TransformerLensOrg/TransformerLens#385
TEST(RopePairingTest, RotatesThePairsOfEachLayout) {
  const RopeParams params = Base(4);
  const Vector interleaved =
      Rotate(Resolve(params, RopePairing::kInterleaved), {1, 2, 3, 4}, 3);
  const Vector half =
      Rotate(Resolve(params, RopePairing::kHalfSplit), {1, 2, 3, 4}, 3);

  const Vector expected_interleaved = {-1.2722325, -1.8388650, 2.8786681,
                                       4.0881866};
  const Vector expected_half = {-1.4133525, 1.8791181, -2.8288575, 4.0581911};
  for (size_t i = 0; i < 4; ++i) {  // seven decimals are printed
    EXPECT_NEAR(interleaved[i], expected_interleaved[i], 6e-8);
    EXPECT_NEAR(half[i], expected_half[i], 6e-8);
  }
}

TEST(RopePairingTest, ScoreDependsOnTheDistanceOnly) {
  const Vector q = {1, 2, 3, 4};
  const Vector k = {0.5, -1, 2, 0.25};
  for (const auto& [pairing, score] :
       {std::pair(RopePairing::kInterleaved, 7.9821315886),
        std::pair(RopePairing::kHalfSplit, -7.2289615067)}) {
    const EffectiveRope rope = Resolve(Base(4), pairing);
    for (const double i : {5.0, 105.0, 1003.0}) {
      EXPECT_NEAR(Dot(Rotate(rope, q, i), Rotate(rope, k, i - 3)), score,
                  1e-10);  // ten decimals are printed
    }
  }
}

Vector Ramp(size_t size) {
  Vector x(size);
  for (size_t i = 0; i < size; ++i) x[i] = 0.1 * static_cast<double>(i) - 0.7;
  return x;
}

TEST_P(EveryTypeTest, ShiftingAllPositionsChangesNoScore) {
  const EffectiveRope rope = Resolve(Scaled(GetParam(), 4));
  const Vector q = Ramp(16);
  const Vector k = Rotate(rope, q, 2);  // some other vector

  const double score = Dot(Rotate(rope, q, 17), Rotate(rope, k, 5));
  EXPECT_NEAR(Dot(Rotate(rope, q, 1017), Rotate(rope, k, 1005)), score, 1e-10);
}

TEST_P(EveryTypeTest, RotationScalesTheNormByTheAttentionFactor) {
  const EffectiveRope rope = Resolve(Scaled(GetParam(), 4));
  const Vector q = Ramp(16);
  const Vector rotated = Rotate(rope, q, 321);

  EXPECT_NEAR(std::sqrt(Dot(rotated, rotated) / Dot(q, q)),
              rope.attention_factor, 1e-12);
}

TEST_P(EveryTypeTest, RotationsCompose) {
  EffectiveRope rope = Resolve(Scaled(GetParam(), 4));
  rope.attention_factor = 1;
  const Vector q = Ramp(16);

  const Vector twice = Rotate(rope, Rotate(rope, q, 30), 12);
  const Vector once = Rotate(rope, q, 42);
  for (size_t i = 0; i < q.size(); ++i) EXPECT_NEAR(twice[i], once[i], 1e-12);
}

TEST_P(EveryTypeTest, FactorOneIsTheDefaultEncoding) {
  const EffectiveRope base = Resolve(Base(16));
  const EffectiveRope rope = Resolve(Scaled(GetParam(), 1));

  EXPECT_EQ(rope.attention_factor, 1);
  ASSERT_EQ(rope.inv_freqs.size(), base.inv_freqs.size());
  for (size_t i = 0; i < base.inv_freqs.size(); ++i) {
    EXPECT_DOUBLE_EQ(rope.inv_freqs[i], base.inv_freqs[i]);
  }
}

TEST_P(EveryTypeTest, ExtensionOnlyLowersFrequencies) {
  const EffectiveRope base = Resolve(Base(64));
  for (const double factor : {1.5, 4.0, 40.0}) {
    const EffectiveRope rope =
        Resolve(Scaled(GetParam(), factor, 64), RopePairing::kHalfSplit);
    for (size_t i = 0; i < base.inv_freqs.size(); ++i) {
      EXPECT_LE(rope.inv_freqs[i], base.inv_freqs[i] * (1 + 1e-15)) << i;
      EXPECT_GE(rope.inv_freqs[i], 0) << i;
    }
  }
}

TEST_P(EveryTypeTest, FrequenciesFallFromPairToPair) {
  const EffectiveRope rope = Resolve(Scaled(GetParam(), 4, 64));

  EXPECT_TRUE(std::is_sorted(rope.inv_freqs.rbegin(), rope.inv_freqs.rend()));
}

// ggml's ramp: where the ends cross, low pairs are kept and the others
// interpolated; transformers' would run backwards.
TEST(YarnTest, CrossedRampStaysMonotonic) {
  RopeParams params = Scaled(RopeType::kYarn, 4);
  params.original_max_position_embeddings = 2;  // turns less than once
  const EffectiveRope rope = Resolve(params);
  const EffectiveRope base = Resolve(Base(16));

  EXPECT_EQ(rope.inv_freqs[0], base.inv_freqs[0]);
  for (size_t i = 1; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(rope.inv_freqs[i], base.inv_freqs[i] / 4);
  }
}

// vllm-project/vllm#46280, sgl-project/sglang#33558, ml-explore/mlx-lm#1507: it
// replaces the formula, once.
TEST(YarnTest, ExplicitAttentionFactorReplacesTheFormula) {
  RopeParams params = Scaled(RopeType::kYarn, 4);
  params.attention_factor = 1;
  params.mscale = 2;
  params.mscale_all_dim = 1;

  EXPECT_EQ(Resolve(params).attention_factor, 1);
}

// huggingface/transformers#38224: an explicit factor wins over the lengths.
TEST(YarnTest, FactorDefaultsToTheRatioOfLengths) {
  RopeParams params = Scaled(RopeType::kYarn, 4);
  params.original_max_position_embeddings = 512;
  EXPECT_EQ(Resolve(params).params.factor, 4);

  params.factor.reset();
  EXPECT_EQ(Resolve(params).params.factor, 8);
}

// lablup/mlxcel#1358, vllm-project/vllm#27431: by length, once per sequence.
TEST(LongRopeTest, FrozenLengthChoosesTheList) {
  RopeParams params = Scaled(RopeType::kLongRope, 8);
  params.original_max_position_embeddings = 512;
  const EffectiveRope base = Resolve(Base(16));

  const EffectiveRope brief =
      Resolve(params, RopePairing::kHalfSplit, /*context_length=*/512);
  const EffectiveRope extended =
      Resolve(params, RopePairing::kHalfSplit, /*context_length=*/513);
  EXPECT_EQ(brief.inv_freqs[3], base.inv_freqs[3]);
  EXPECT_EQ(extended.inv_freqs[3], base.inv_freqs[3] / 8);
  EXPECT_GT(brief.attention_factor, 1);  // in short mode too
  EXPECT_EQ(brief.attention_factor, extended.attention_factor);
  EXPECT_NE(brief.hash, extended.hash);
}

// ikawrakow/ik_llama.cpp#2291: the stored divisors must be used.
TEST(StoredDivisorsTest, StandInForTheLlama3Formula) {
  RopeParams formula = Base(128);
  formula.rope_theta = 5e5;
  formula.max_position_embeddings = 131072;
  formula.type = RopeType::kLlama3;
  formula.factor = 8;
  formula.original_max_position_embeddings = 8192;
  const EffectiveRope expected = Resolve(formula);
  RopeParams stored = formula;
  stored.factor.reset();
  stored.original_max_position_embeddings.reset();
  RopeParams base = formula;
  base.type = RopeType::kDefault;
  const EffectiveRope unscaled = Resolve(base);
  for (size_t i = 0; i < 64; ++i) {
    stored.stored_divisors.push_back(unscaled.inv_freqs[i] /
                                     expected.inv_freqs[i]);
  }

  const EffectiveRope rope = Resolve(stored);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_DOUBLE_EQ(rope.inv_freqs[i], expected.inv_freqs[i]);
  }
  EXPECT_DOUBLE_EQ(rope.params.factor.value_or(0), 8);
}

TEST(RopeHashTest, DependsOnAllThatChangesARotatedKey) {
  RopeParams theta = Base(16);
  theta.rope_theta = 10001;
  RopeParams narrow = Base(16);
  narrow.rotary_dim = 8;
  RopeParams magnitude = Scaled(RopeType::kYarn, 1);
  magnitude.attention_factor = 1.01;

  const std::set<uint64_t> hashes = {
      Resolve(Base(16)).hash,
      Resolve(Base(16), RopePairing::kInterleaved).hash,
      Resolve(theta).hash,
      Resolve(narrow).hash,
      Resolve(magnitude).hash,
      Resolve(Scaled(RopeType::kLinear, 2)).hash,
  };
  EXPECT_EQ(hashes.size(), 6);
}

TEST(RopeHashTest, IgnoresWhatDoesNot) {
  RopeParams longer = Base(16);
  longer.max_position_embeddings = 8192;
  RopeParams unused = Base(16);
  unused.factor = 3;  // the default encoding has none

  EXPECT_EQ(Resolve(longer).hash, Resolve(Base(16)).hash);
  EXPECT_EQ(Resolve(unused).hash, Resolve(Base(16)).hash);
  EXPECT_EQ(Resolve(Scaled(RopeType::kLinear, 1)).hash, Resolve(Base(16)).hash);
}

// It keys caches that outlive a process. FNV-1a of the little-endian words
// pairing 0, attention factor 1.0 and frequency 1.0.
TEST(RopeHashTest, IsTheSameForEverybody) {
  EXPECT_EQ(Resolve(Base(2)).hash, 0x7f22903e70267865ULL);
}

TEST(RopeNamesTest, AreThoseOfTheMethods) {
  for (const ScalingMethod* method : ScalingMethods()) {
    EXPECT_EQ(&FindScalingMethod(method->type), method);
    EXPECT_EQ(RopeTypeFromName(RopeTypeName(method->type)), method->type);
    EXPECT_EQ(RopeTypeFromName(method->request_name), method->type);
  }
  EXPECT_EQ(RopeTypeName(RopeType::kDynamicNtk), "dynamic");
  EXPECT_EQ(RopeTypeFromName("Yarn"), std::nullopt);
  EXPECT_EQ(RopeTypeFromName(""), std::nullopt);
}

TEST(EffectiveRopeTest, HoldsEveryDefaultAndNothingElse) {
  RopeParams params = Scaled(RopeType::kYarn, 4);
  params.low_freq_factor = 2;  // not YaRN's
  params.short_factor = {1, 2, 3};
  const RopeParams effective = Resolve(params).params;

  EXPECT_EQ(effective.beta_fast, 32);
  EXPECT_EQ(effective.beta_slow, 1);
  EXPECT_EQ(effective.truncate, true);
  EXPECT_EQ(effective.original_max_position_embeddings, 4096);
  EXPECT_EQ(effective.low_freq_factor, std::nullopt);
  EXPECT_TRUE(effective.short_factor.empty());
}

TEST(EffectiveRopeTest, ResolvesToItself) {
  for (const ScalingMethod* method : ScalingMethods()) {
    const EffectiveRope once = Resolve(Scaled(method->type, 4));
    const EffectiveRope twice = Resolve(once.params);
    EXPECT_EQ(once.params, twice.params) << method->name;
    EXPECT_EQ(once.hash, twice.hash) << method->name;
  }
}

TEST(ContextLengthTest, IsWhatTheMethodServes) {
  EXPECT_EQ(Resolve(Scaled(RopeType::kDefault, 4)).context_length, 4096);
  EXPECT_EQ(Resolve(Scaled(RopeType::kLinear, 4)).context_length, 16384);
  EXPECT_EQ(Resolve(Scaled(RopeType::kNtk, 4)).context_length, 16384);
  EXPECT_EQ(Resolve(Scaled(RopeType::kDynamicNtk, 4)).context_length, 16384);
  EXPECT_EQ(Resolve(Scaled(RopeType::kYarn, 4)).context_length, 16384);
  EXPECT_EQ(Resolve(Scaled(RopeType::kLongRope, 4)).context_length, 4096);
  EXPECT_EQ(Resolve(Scaled(RopeType::kLlama3, 4)).context_length, 4096);
  EXPECT_EQ(Resolve(Scaled(RopeType::kYarn, 4), RopePairing::kHalfSplit, 99)
                .context_length,
            99);
}

TEST(ContextLengthTest, SurvivesRoundingOfTheFactor) {
  RopeParams params = Scaled(RopeType::kLinear, 1);
  for (int64_t needed = 4097; needed < 9000; needed += 7) {
    params.factor = static_cast<double>(needed) / 4096;
    params.original_max_position_embeddings = 4096;
    ASSERT_EQ(Resolve(params).context_length, needed);
    params.factor = static_cast<double>(needed) / 3001;
    params.original_max_position_embeddings = 3001;
    ASSERT_EQ(Resolve(params).context_length, needed);
  }
}

}  // namespace
}  // namespace headrace
