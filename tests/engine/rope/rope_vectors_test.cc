// Published frequencies of real models, nine significant digits each, for
// every scaling method.
#include <cmath>
#include <map>
#include <vector>

#include "engine/rope/rope_params.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

RopeParams Base(int64_t head_dim, double theta, int64_t positions) {
  return {.rope_theta = theta,
          .head_dim = head_dim,
          .rotary_dim = head_dim,
          .max_position_embeddings = positions};
}

EffectiveRope Resolve(const RopeParams& params, int64_t context_length = 0) {
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(params, RopePairing::kHalfSplit, context_length);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.value_or(EffectiveRope{});
}

// Half a unit of the last printed digit, with a little room.
constexpr double kNineDigits = 6e-9;

void ExpectFrequencies(const EffectiveRope& rope,
                       const std::map<size_t, double>& expected) {
  for (const auto& [pair, frequency] : expected) {
    ASSERT_LT(pair, rope.inv_freqs.size());
    EXPECT_NEAR(rope.inv_freqs[pair] / frequency, 1, kNineDigits)
        << "pair " << pair;
  }
}

TEST(RopeVectorsTest, DefaultLadder) {
  ExpectFrequencies(Resolve(Base(128, 1e4, 4096)), {{0, 1},
                                                    {1, 0.865964323},
                                                    {16, 0.1},
                                                    {32, 0.01},
                                                    {48, 0.001},
                                                    {63, 1.15478198e-4}});
  ExpectFrequencies(Resolve(Base(64, 1e4, 4096)), {{1, 0.749894209},
                                                   {8, 0.1},
                                                   {16, 0.01},
                                                   {24, 0.001},
                                                   {31, 1.33352143e-4}});
  ExpectFrequencies(Resolve(Base(128, 5e5, 4096)), {{1, 0.814617234},
                                                    {16, 0.0376060309},
                                                    {32, 1.41421356e-3},
                                                    {48, 5.31829590e-5},
                                                    {63, 2.45514079e-6}});
}

TEST(RopeVectorsTest, LinearDividesEveryFrequency) {
  RopeParams params = Base(64, 1e5, 8192);
  params.type = RopeType::kLinear;
  params.factor = 2;

  ExpectFrequencies(Resolve(params),
                    {{1, 0.3489152924}, {31, 7.1650628512e-6}});
}

RopeParams Llama3(int64_t head_dim, double factor) {
  RopeParams params = Base(head_dim, 5e5, 131072);
  params.type = RopeType::kLlama3;
  params.factor = factor;
  params.low_freq_factor = 1;
  params.high_freq_factor = 4;
  params.original_max_position_embeddings = 8192;
  return params;
}

// TransformerLensOrg/TransformerLens#764: base 500 000 and no scaling by parts.
TEST(RopeVectorsTest, Llama31) {
  const EffectiveRope rope = Resolve(Llama3(128, 8));
  const EffectiveRope base = Resolve(Base(128, 5e5, 131072));

  ExpectFrequencies(rope, {{28, 3.21144599e-3},
                           {29, 2.16657076e-3},
                           {30, 1.37189357e-3},
                           {31, 8.56751413e-4},
                           {32, 5.24846161e-4},
                           {33, 3.12693750e-4},
                           {34, 1.78507813e-4},
                           {35, 9.55621235e-5},
                           {40, 3.42810220e-5},
                           {63, 3.06892599e-7}});
  for (size_t i = 0; i <= 28; ++i) {
    EXPECT_EQ(rope.inv_freqs[i], base.inv_freqs[i]) << "pair " << i;
  }
  for (size_t i = 35; i < 64; ++i) {
    EXPECT_EQ(rope.inv_freqs[i], base.inv_freqs[i] / 8) << "pair " << i;
  }
  EXPECT_EQ(rope.attention_factor, 1);
  EXPECT_EQ(rope.context_length, 131072);
}

// ggml-org/llama.cpp#8676: a draft of it blended the divisors the wrong way.
TEST(RopeVectorsTest, Llama31DivisorsAreThoseOfGgufFiles) {
  const EffectiveRope rope = Resolve(Llama3(128, 8));
  const EffectiveRope base = Resolve(Base(128, 5e5, 131072));
  const std::vector<double> expected = {1,        1.207484, 1.553415, 2.026313,
                                        2.694530, 3.684253, 5.257327, 8};

  for (size_t i = 0; i < expected.size(); ++i) {
    // Seven digits are printed.
    EXPECT_NEAR(base.inv_freqs[28 + i] / rope.inv_freqs[28 + i], expected[i],
                6e-7)
        << "pair " << 28 + i;
  }
}

// TransformerLensOrg/TransformerLens#910: wrong factors.
TEST(RopeVectorsTest, Llama32OneBillion) {
  const EffectiveRope rope = Resolve(Llama3(64, 32));
  const EffectiveRope base = Resolve(Base(64, 5e5, 131072));

  ExpectFrequencies(rope, {{14, 3.21144599e-3},
                           {15, 1.29054793e-3},
                           {16, 4.29556797e-4},
                           {17, 9.70828780e-5},
                           {18, 1.94616382e-5},
                           {31, 9.41830673e-8}});
  EXPECT_NEAR(base.inv_freqs[15] / rope.inv_freqs[15], 1.651329, 6e-7);
  EXPECT_NEAR(base.inv_freqs[16] / rope.inv_freqs[16], 3.292262, 6e-7);
  EXPECT_NEAR(base.inv_freqs[17] / rope.inv_freqs[17], 9.666729, 6e-7);
}

RopeParams Yarn(RopeParams params, double factor, int64_t original) {
  params.type = RopeType::kYarn;
  params.factor = factor;
  params.original_max_position_embeddings = original;
  return params;
}

TEST(RopeVectorsTest, Qwen25YarnTimesFour) {
  const EffectiveRope rope = Resolve(Yarn(Base(128, 1e6, 32768), 4, 32768));

  ExpectFrequencies(rope, {{22, 8.65964323e-3},
                           {23, 6.97830585e-3},
                           {24, 5.37532149e-3},
                           {25, 4.13173802e-3},
                           {28, 1.84827656e-3},
                           {32, 6.02941176e-4},
                           {36, 1.79841156e-4},
                           {39, 6.49039432e-5},
                           {40, 4.44569853e-5},
                           {63, 3.10234440e-7}});
  EXPECT_NEAR(rope.attention_factor, 1.138629436, 5e-10);
  EXPECT_EQ(rope.context_length, 131072);
}

// vllm-project/vllm#27722: gpt-oss asks for the fractional bounds.
TEST(RopeVectorsTest, GptOssYarnWithoutTruncation) {
  RopeParams params = Yarn(Base(64, 150000, 131072), 32, 4096);
  params.truncate = false;
  const EffectiveRope rope = Resolve(params);

  ExpectFrequencies(rope, {{8, 0.0508132748},
                           {9, 0.0317056962},
                           {12, 6.79495949e-3},
                           {16, 4.56483919e-4},
                           {17, 1.29318701e-4},
                           {18, 3.83088124e-5}});
  EXPECT_NEAR(rope.attention_factor, 1.346573590, 5e-10);
  params.truncate = true;
  ExpectFrequencies(
      Resolve(params),
      {{9, 0.0316207523}, {12, 7.01571391e-3}, {17, 2.27947796e-4}});
}

TEST(RopeVectorsTest, DeepSeekV3) {
  RopeParams params = Yarn(Base(64, 1e4, 163840), 40, 4096);
  params.mscale = 1;
  params.mscale_all_dim = 1;
  const EffectiveRope rope = Resolve(params);

  ExpectFrequencies(rope, {{10, 0.0562341325},
                           {11, 0.0390069266},
                           {16, 5.5e-3},
                           {22, 1.77827941e-4},
                           {23, 3.33380358e-5}});
  EXPECT_EQ(rope.attention_factor, 1);
}

TEST(RopeVectorsTest, YarnOfTheSmallestModel) {
  const EffectiveRope rope = Resolve(Yarn(Base(8, 1e4, 512), 4, 128));

  ExpectFrequencies(rope, {{0, 1}, {1, 0.0625}, {2, 0.0025}, {3, 0.00025}});
  EXPECT_NEAR(rope.attention_factor, 1.138629436, 5e-10);
}

TEST(RopeVectorsTest, Llama3OfTheSmallestModel) {
  RopeParams params = Base(8, 1e4, 512);
  params.type = RopeType::kLlama3;
  params.factor = 8;
  params.original_max_position_embeddings = 128;

  ExpectFrequencies(Resolve(params),
                    {{0, 1}, {1, 0.0427511788}, {2, 0.00125}, {3, 0.000125}});
}

// TransformerLensOrg/TransformerLens#894: Phi was run without them, silently.
// The divisors of Phi-4-mini at the pairs that are checked; 1 elsewhere.
TEST(RopeVectorsTest, Phi4LongRope) {
  RopeParams params = Base(128, 1e4, 131072);
  params.rotary_dim = 96;
  params.type = RopeType::kLongRope;
  params.original_max_position_embeddings = 4096;
  params.short_factor.assign(48, 1);
  params.long_factor.assign(48, 1);
  params.long_factor[1] = 1.118320672;
  params.long_factor[12] = 3.826451687;
  params.long_factor[24] = 14.64173252;
  params.long_factor[36] = 32.61;
  params.long_factor[47] = 47.77;

  const EffectiveRope rope = Resolve(params);
  ExpectFrequencies(rope, {{0, 1},
                           {1, 0.738074692},
                           {12, 0.0261338724},
                           {24, 6.82979284e-4},
                           {36, 3.06654400e-5},
                           {47, 2.53616843e-6}});
  EXPECT_NEAR(rope.attention_factor, 1.1902380714, 5e-11);
}

// The base b' is seen in pair 1: b'^(-2/128).
double ThetaOf(const EffectiveRope& rope) {
  return std::pow(rope.inv_freqs[1], -64.0);
}

// vllm-project/vllm#3488: unscaled up to the trained length.
TEST(RopeVectorsTest, DynamicNtkByFrozenLength) {
  RopeParams params = Base(128, 1e4, 4096);
  params.type = RopeType::kDynamicNtk;
  params.factor = 2;
  const std::map<int64_t, double> theta_by_length = {
      {1, 10000},           {4096, 10000},        {4097, 10004.960337},
      {6144, 20221.261690}, {8192, 30527.736749}, {16384, 72195.860087}};

  for (const auto& [length, theta] : theta_by_length) {
    // Eleven digits are printed; the power of 64 costs some of float64's.
    EXPECT_NEAR(ThetaOf(Resolve(params, length)) / theta, 1, 1e-10) << length;
  }
  ExpectFrequencies(Resolve(params, 8192), {{63, 3.84927328e-5}});
}

TEST(RopeVectorsTest, StaticNtkTimesEight) {
  RopeParams params = Base(128, 1e4, 4096);
  params.type = RopeType::kNtk;
  params.factor = 8;
  const EffectiveRope rope = Resolve(params);

  EXPECT_NEAR(ThetaOf(rope) / 82684.622641, 1, 1e-10);
  EXPECT_EQ(rope.inv_freqs[0], 1);
  ExpectFrequencies(rope, {{63, 1.15478198e-4 / 8}});
}

// NVIDIA-NeMo/Megatron-Bridge#4195: zeros fill the head up.
TEST(RopeVectorsTest, Gemma4Proportional) {
  RopeParams params = Base(512, 1e6, 131072);
  params.type = RopeType::kProportional;
  params.partial_rotary_factor = 0.25;
  const EffectiveRope rope = Resolve(params);

  ASSERT_EQ(rope.inv_freqs.size(), 256);
  ExpectFrequencies(rope, {{1, 0.947463526}, {63, 0.0333762469}});
  for (size_t i = 64; i < 256; ++i) EXPECT_EQ(rope.inv_freqs[i], 0);
}

}  // namespace
}  // namespace headrace
