#include "engine/rope/parse_gguf.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// SmolLM2-135M's keys about positions.
Json Kvs() {
  return Json::parse(R"({"llama.context_length": 8192,
      "llama.embedding_length": 576, "llama.attention.head_count": 9,
      "llama.rope.freq_base": 100000.0, "llama.rope.dimension_count": 64})");
}

Json With(const char* more) {
  Json kvs = Kvs();
  kvs.update(Json::parse(more));
  return kvs;
}

ParsedRope Parse(const Json& kvs, const GgufRopeTensors& tensors = {}) {
  absl::StatusOr<ParsedRope> parsed = RopeParamsFromGguf(kvs, "llama", tensors);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ParsedRope{});
}

EffectiveRope Resolve(const Json& kvs, const GgufRopeTensors& tensors = {}) {
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(Parse(kvs, tensors).params, RopePairing::kInterleaved, 0);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.value_or(EffectiveRope{});
}

std::string ErrorOf(const Json& kvs, const GgufRopeTensors& tensors = {}) {
  const absl::Status status =
      RopeParamsFromGguf(kvs, "llama", tensors).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << kvs;
  return std::string(status.message());
}

TEST(ParseGgufTest, ReadsDimensionsAndBase) {
  const ParsedRope parsed = Parse(Kvs());

  const RopeParams expected = {.rope_theta = 100000,
                               .head_dim = 64,
                               .rotary_dim = 64,
                               .max_position_embeddings = 8192};
  EXPECT_EQ(parsed.params, expected);
  EXPECT_THAT(parsed.warnings, IsEmpty());
}

TEST(ParseGgufTest, KeyLengthAndDimensionCountOverrideTheQuotient) {
  Json kvs = With(R"({"llama.attention.key_length": 128})");
  EXPECT_EQ(Parse(kvs).params.head_dim, 128);
  EXPECT_EQ(Parse(kvs).params.rotary_dim, 64);
  kvs.erase("llama.rope.dimension_count");
  EXPECT_EQ(Parse(kvs).params.rotary_dim, 128);
  kvs.erase("llama.rope.freq_base");
  EXPECT_EQ(Parse(kvs).params.rope_theta, 10000);
}

TEST(ParseGgufTest, HeadCountMayBeGivenPerLayer) {
  EXPECT_EQ(
      Parse(With(R"({"llama.attention.head_count": [9, 9]})")).params.head_dim,
      64);
  for (const char* counts : {"[9, 3]", "[]", "[0, 0]", "0", "-2"}) {
    Json kvs = Kvs();
    kvs["llama.attention.head_count"] = Json::parse(counts);
    EXPECT_THAT(ErrorOf(kvs), HasSubstr("llama.attention.head_count"));
  }
}

TEST(ParseGgufTest, MissingKeysAreNamed) {
  Json kvs = Kvs();
  kvs.erase("llama.context_length");
  EXPECT_THAT(ErrorOf(kvs), HasSubstr("llama.context_length is missing"));
  kvs = Kvs();
  kvs.erase("llama.attention.head_count");
  EXPECT_THAT(ErrorOf(kvs), HasSubstr("llama.attention.head_count"));
}

// The absent type means linear with factor 1: nothing.
TEST(ParseGgufTest, LinearOfFactorOneIsTheDefault) {
  for (const char* more : {"{}", R"({"llama.rope.scaling.type": "linear"})",
                           R"({"llama.rope.scaling.factor": 0.0})",
                           R"({"llama.rope.scaling.type": "none",
            "llama.rope.scaling.factor": 4.0})"}) {
    EXPECT_EQ(Resolve(With(more)).hash, Resolve(Kvs()).hash) << more;
  }
}

TEST(ParseGgufTest, LinearFactorUnderBothKeys) {
  for (const char* more : {R"({"llama.rope.scaling.factor": 2.0})",
                           R"({"llama.rope.scaling.type": "linear",
                               "llama.rope.scaling.factor": 2.0})",
                           R"({"llama.rope.scale_linear": 2.0})"}) {
    const EffectiveRope rope = Resolve(With(more));
    EXPECT_EQ(rope.params.type, RopeType::kLinear) << more;
    EXPECT_NEAR(rope.inv_freqs[1], 0.3489152924, 1e-10) << more;
    EXPECT_EQ(rope.context_length, 16384) << more;
  }
}

TEST(ParseGgufTest, YarnKeys) {
  const EffectiveRope rope = Resolve(With(
      R"({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
          "llama.rope.scaling.original_context_length": 2048,
          "llama.rope.scaling.yarn_ext_factor": -1.0,
          "llama.rope.scaling.yarn_beta_fast": 16.0,
          "llama.rope.scaling.yarn_beta_slow": 2.0})"));

  EXPECT_EQ(rope.params.type, RopeType::kYarn);
  EXPECT_EQ(rope.params.original_max_position_embeddings, 2048);
  EXPECT_EQ(rope.params.beta_fast, 16);
  EXPECT_EQ(rope.params.beta_slow, 2);
  EXPECT_EQ(rope.context_length, 8192);
  EXPECT_NEAR(rope.attention_factor, 1.138629436, 5e-10);
}

// ggml-org/llama.cpp#17945: one magnitude, in one place.
TEST(ParseGgufTest, YarnMagnitude) {
  const char* yarn = R"({"llama.rope.scaling.type": "yarn",
      "llama.rope.scaling.factor": 4.0, "llama.rope.scaling.attn_factor": 0.5})";
  EXPECT_NEAR(Resolve(With(yarn)).attention_factor, 0.5 * 1.138629436, 5e-10);

  const char* ratio = R"({"llama.rope.scaling.type": "yarn",
      "llama.rope.scaling.factor": 40.0,
      "llama.rope.scaling.yarn_log_multiplier": 1.0})";
  EXPECT_DOUBLE_EQ(Resolve(With(ratio)).attention_factor, 1);

  const char* ignored = R"({"llama.rope.scaling.type": "yarn",
      "llama.rope.scaling.factor": 4.0,
      "llama.rope.scaling.yarn_attn_factor": 2.0})";
  EXPECT_NEAR(Resolve(With(ignored)).attention_factor, 1.138629436, 5e-10);
  EXPECT_THAT(Parse(With(ignored)).warnings,
              ElementsAre(HasSubstr("yarn_attn_factor")));
}

TEST(ParseGgufTest, PartExtrapolationIsRefused) {
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.scaling.type": "yarn",
                               "llama.rope.scaling.factor": 4.0,
                               "llama.rope.scaling.yarn_ext_factor": 0.5})")),
              HasSubstr("llama.rope.scaling.yarn_ext_factor must be 1"));
}

TEST(ParseGgufTest, LongRopeFactorsComeFromTensors) {
  const std::vector<float> brief(32, 1);
  std::vector<float> extended(32, 4);
  const GgufRopeTensors tensors = {.factors_long = extended,
                                   .factors_short = brief};
  const Json kvs = With(
      R"({"llama.rope.scaling.original_context_length": 1024,
          "llama.rope.scaling.attn_factor": 1.19})");
  const EffectiveRope rope = Resolve(kvs, tensors);

  EXPECT_EQ(rope.params.type, RopeType::kLongRope);
  EXPECT_DOUBLE_EQ(rope.inv_freqs[0], 0.25);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 1.19);
  EXPECT_EQ(rope.context_length, 8192);
  EXPECT_THAT(ErrorOf(kvs, {.factors_long = extended}),
              HasSubstr("rope_factors_short.weight is missing"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.scaling.type": "longrope"})")),
              HasSubstr("is missing"));
  extended[3] = 0;
  EXPECT_THAT(ErrorOf(kvs, tensors),
              HasSubstr("rope_factors_long.weight[3] must be"));
}

// ggml-org/llama.cpp#8676, ikawrakow/ik_llama.cpp#2291.
TEST(ParseGgufTest, StoredDivisorsAreUsed) {
  std::vector<float> divisors(32, 1);
  for (size_t i = 18; i < 32; ++i) divisors[i] = 32;
  const EffectiveRope rope = Resolve(Kvs(), {.freqs = divisors});
  const EffectiveRope base = Resolve(Kvs());

  EXPECT_EQ(rope.params.type, RopeType::kLlama3);
  EXPECT_EQ(rope.params.factor, 32);
  EXPECT_EQ(rope.inv_freqs[17], base.inv_freqs[17]);
  EXPECT_EQ(rope.inv_freqs[18], base.inv_freqs[18] / 32);
  EXPECT_EQ(rope.context_length, 8192);
}

TEST(ParseGgufTest, LinearAppliesOnTopOfStoredDivisors) {
  const std::vector<float> divisors(32, 8);
  const EffectiveRope rope = Resolve(
      With(R"({"llama.rope.scaling.factor": 2.0})"), {.freqs = divisors});

  EXPECT_DOUBLE_EQ(rope.inv_freqs[0], 1.0 / 16);
}

TEST(ParseGgufTest, DivisorsOfOneAreNoScaling) {
  const std::vector<float> ones(32, 1);
  EXPECT_EQ(Parse(Kvs(), {.freqs = ones}).params, Parse(Kvs()).params);
}

TEST(ParseGgufTest, BadDivisorsAreRefusedByTheirTensor) {
  std::vector<float> divisors(32, 2);
  divisors[5] = std::nanf("");
  EXPECT_THAT(ErrorOf(Kvs(), {.freqs = divisors}),
              HasSubstr("rope_freqs.weight[5] must be"));
  const std::vector<float> few(16, 2);
  EXPECT_THAT(ErrorOf(Kvs(), {.freqs = few}),
              HasSubstr("rope_freqs.weight must have rotary_dim / 2 = 32"));
}

TEST(ParseGgufTest, BadValuesAreRefusedByTheirKey) {
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.scaling.factor": 0.5})")),
              HasSubstr("llama.rope.scaling.factor must be"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.scaling.factor": "2"})")),
              HasSubstr("llama.rope.scaling.factor must be a number"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.scaling.type": "cubic"})")),
              HasSubstr("llama.rope.scaling.type must be"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.dimension_count": 63})")),
              HasSubstr("llama.rope.dimension_count must be even"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.freq_base": 0.0})")),
              HasSubstr("llama.rope.freq_base must be"));
  EXPECT_THAT(ErrorOf(With(R"({"llama.rope.freq_base_swa": 10000.0})")),
              HasSubstr("llama.rope.freq_base_swa must equal"));
}

TEST(ParseGgufTest, UnknownKeysAreReported) {
  EXPECT_THAT(
      Parse(With(R"({"llama.rope.scaling.magic": 1,
                     "llama.rope.scaling.finetuned": true})"))
          .warnings,
      ElementsAre("llama.rope.scaling.magic is not known and not used"));
}

TEST(ParseGgufTest, AgreesWithTheHuggingFaceFormOfTheSameModel) {
  const RopeParams yarn = Parse(With(R"({"llama.rope.scaling.type": "yarn",
                     "llama.rope.scaling.factor": 4.0,
                     "llama.rope.scaling.original_context_length": 2048})"))
                              .params;
  RopeParams expected = {.type = RopeType::kYarn,
                         .rope_theta = 100000,
                         .head_dim = 64,
                         .rotary_dim = 64,
                         .max_position_embeddings = 8192};
  expected.factor = 4;
  expected.original_max_position_embeddings = 2048;
  EXPECT_EQ(yarn, expected);
}

}  // namespace
}  // namespace headrace
