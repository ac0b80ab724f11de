#include "engine/rope/parse_hf.h"

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

// SmolLM2-135M's, without the rest.
Json Config() {
  return Json::parse(R"({"hidden_size": 576, "num_attention_heads": 9,
      "max_position_embeddings": 8192, "rope_theta": 100000.0})");
}

Json WithScaling(const char* scaling) {
  Json config = Config();
  config["rope_scaling"] = Json::parse(scaling);
  return config;
}

Json WithParameters(const char* parameters) {
  Json config = Config();
  config.erase("rope_theta");
  config["rope_parameters"] = Json::parse(parameters);
  return config;
}

ParsedRope Parse(const Json& config) {
  absl::StatusOr<ParsedRope> parsed = RopeParamsFromHfConfig(config);
  EXPECT_TRUE(parsed.ok()) << parsed.status() << " of " << config;
  return parsed.value_or(ParsedRope{});
}

EffectiveRope Resolve(const Json& config) {
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(Parse(config).params, RopePairing::kHalfSplit, 0);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.value_or(EffectiveRope{});
}

std::string ErrorOf(const Json& config) {
  const absl::Status status = RopeParamsFromHfConfig(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << config;
  return std::string(status.message());
}

// huggingface/transformers#32167, ModelTC/LightLLM#359: the many ways to say
// nothing.
TEST(ParseHfTest, EmptyScalingIsNone) {
  const EffectiveRope base = Resolve(Config());
  for (const char* scaling :
       {"null", "{}", R"({"rope_type": "default"})", R"({"type": "default"})",
        R"({"rope_type": null})"}) {
    const EffectiveRope rope = Resolve(WithScaling(scaling));
    EXPECT_EQ(rope.params, base.params) << scaling;
    EXPECT_EQ(rope.hash, base.hash) << scaling;
  }
  EXPECT_NEAR(base.inv_freqs[1], 0.6978305849, 1e-10);
  EXPECT_NEAR(base.inv_freqs[31], 1.4330125702e-5, 1e-15);
}

TEST(ParseHfTest, EveryFormOfOneScalingIsTheSame) {
  const std::vector<Json> forms = {
      WithScaling(R"({"type": "linear", "factor": 2})"),
      WithScaling(R"({"rope_type": "linear", "factor": 2.0})"),
      WithScaling(R"({"type": "linear", "rope_type": "linear", "factor": 2})"),
      WithParameters(R"({"rope_type": "linear", "rope_theta": 100000.0,
                         "factor": 2})"),
  };
  const EffectiveRope first = Resolve(forms[0]);

  EXPECT_NEAR(first.inv_freqs[1], 0.3489152924, 1e-10);
  EXPECT_NEAR(first.inv_freqs[31], 7.1650628512e-6, 1e-16);
  for (const Json& form : forms) {
    const EffectiveRope rope = Resolve(form);
    EXPECT_EQ(rope.params, first.params) << form;
    EXPECT_EQ(rope.hash, first.hash) << form;
    EXPECT_THAT(Parse(form).warnings, IsEmpty());
  }
}

// NVIDIA/TensorRT-Model-Connect#399 and sbryngelson/ANEForge#58: both objects
// and both type keys count, for every method.
TEST(ParseHfTest, OldAndNewFormsAgreeForEveryMethod) {
  for (const char* fields :
       {R"("factor": 2})", R"("factor": 4, "beta_fast": 16})",
        R"("factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
           "original_max_position_embeddings": 2048})"}) {
    const std::string type =
        std::string_view(fields).find("low") != std::string_view::npos
            ? "llama3"
        : std::string_view(fields).find("beta") != std::string_view::npos
            ? "yarn"
            : "dynamic";
    const std::string old_form = "{\"type\": \"" + type + "\", " + fields;
    const std::string new_form =
        "{\"rope_type\": \"" + type + "\", \"rope_theta\": 100000.0, " + fields;
    const EffectiveRope old_rope = Resolve(WithScaling(old_form.c_str()));
    const EffectiveRope new_rope = Resolve(WithParameters(new_form.c_str()));
    EXPECT_EQ(RopeTypeName(old_rope.params.type), type);
    EXPECT_EQ(old_rope.params, new_rope.params);
    EXPECT_EQ(old_rope.hash, new_rope.hash);
  }
}

TEST(ParseHfTest, DisagreeingTypesAreRefused) {
  EXPECT_THAT(ErrorOf(WithScaling(
                  R"({"type": "yarn", "rope_type": "linear", "factor": 2})")),
              HasSubstr("rope_scaling.rope_type must equal rope_scaling.type "
                        "(\"yarn\"); is \"linear\""));
}

// TransformerLensOrg/TransformerLens#894: unscaled where the type is not known.
TEST(ParseHfTest, UnknownTypesAreRefusedNotDefaulted) {
  EXPECT_THAT(ErrorOf(WithScaling(R"({"rope_type": "axial"})")),
              HasSubstr("rope_scaling.rope_type must be one of"));
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": "ntk", "factor": 2})")),
              HasSubstr("rope_scaling.type"));
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": 3})")),
              HasSubstr("rope_scaling.type must be a string; is 3"));
}

TEST(ParseHfTest, BadFactorsAreRefusedByTheirKey) {
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": "linear"})")),
              HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": "linear", "factor": "2"})")),
              HasSubstr("rope_scaling.factor must be a number; is \"2\""));
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": "linear", "factor": true})")),
              HasSubstr("rope_scaling.factor must be a number; is true"));
  EXPECT_THAT(ErrorOf(WithScaling(R"({"type": "linear", "factor": 0.5})")),
              HasSubstr("rope_scaling.factor must be finite and at least 1; "
                        "is 0.5"));
  EXPECT_THAT(
      ErrorOf(WithParameters(R"({"rope_type": "dynamic", "rope_theta": 1e4,
                                 "factor": null})")),
      HasSubstr("rope_parameters.factor is missing"));
}

TEST(ParseHfTest, ScalingMustBeAnObject) {
  EXPECT_THAT(ErrorOf(WithScaling(R"("linear")")),
              HasSubstr("rope_scaling must be an object or null"));
  EXPECT_THAT(ErrorOf(WithScaling("[2]")), HasSubstr("rope_scaling"));
}

TEST(ParseHfTest, NonEmptyScalingReplacesParameters) {
  Json config = WithScaling(R"({"type": "linear", "factor": 2})");
  config["rope_parameters"] =
      Json::parse(R"({"rope_type": "yarn", "rope_theta": 5.0, "factor": 4})");
  EXPECT_EQ(Parse(config).params.type, RopeType::kLinear);
  EXPECT_EQ(Parse(config).params.rope_theta, 100000);

  config["rope_scaling"] = Json::object();
  EXPECT_EQ(Parse(config).params.type, RopeType::kYarn);
  EXPECT_EQ(Parse(config).params.rope_theta, 5);  // its own key wins
}

// deepspeedai/DeepSpeed#8345: version 5 moved rope_theta; the default must not
// slip in unseen.
TEST(ParseHfTest, ThetaIsFoundOrItsDefaultIsSaid) {
  EXPECT_EQ(
      Parse(WithParameters(R"({"rope_theta": 500000.0})")).params.rope_theta,
      500000);
  Json config = Config();
  config.erase("rope_theta");
  config["rotary_emb_base"] = 20000;
  EXPECT_EQ(Parse(config).params.rope_theta, 20000);
  config.erase("rotary_emb_base");
  EXPECT_EQ(Parse(config).params.rope_theta, 10000);
  EXPECT_THAT(Parse(config).warnings, ElementsAre(HasSubstr("rope_theta")));
  EXPECT_EQ(
      RopeParamsFromHfConfig(config, {.rope_theta = 2e6})->params.rope_theta,
      2e6);
}

// huggingface/candle#2358: Mistral-Nemo's heads are wider than hidden / heads.
TEST(ParseHfTest, HeadDimOverridesTheQuotient) {
  EXPECT_EQ(Parse(Config()).params.head_dim, 64);
  Json config = Config();
  config["head_dim"] = 128;
  EXPECT_EQ(Parse(config).params.head_dim, 128);
  EXPECT_EQ(Parse(config).params.rotary_dim, 128);
  config["head_dim"] = nullptr;
  EXPECT_EQ(Parse(config).params.head_dim, 64);
  config["num_attention_heads"] = 7;
  EXPECT_THAT(ErrorOf(config), HasSubstr("num_attention_heads must divide"));
  config.erase("num_attention_heads");
  EXPECT_THAT(ErrorOf(config), HasSubstr("are missing"));
}

// huggingface/transformers#48241: legacy names of partial rotation.
TEST(ParseHfTest, PartialRotationUnderItsThreeNames) {
  for (const auto& [key, value] :
       {std::pair("partial_rotary_factor", Json(0.25)),
        std::pair("rotary_pct", Json(0.25)),
        std::pair("rotary_dim", Json(16))}) {
    Json config = Config();
    config[key] = value;
    EXPECT_EQ(Parse(config).params.rotary_dim, 16) << key;
    EXPECT_EQ(Parse(config).params.head_dim, 64) << key;
  }
  EXPECT_EQ(Parse(WithParameters(
                      R"({"rope_theta": 1e4, "partial_rotary_factor": 0.5})"))
                .params.rotary_dim,
            32);
  EXPECT_EQ(RopeParamsFromHfConfig(Config(), {.partial_rotary_factor = 0.25})
                ->params.rotary_dim,
            16);
}

TEST(ParseHfTest, BadPartialRotationIsRefused) {
  Json config = Config();
  config["partial_rotary_factor"] = 1.5;
  EXPECT_THAT(ErrorOf(config), HasSubstr("partial_rotary_factor must be"));
  config["partial_rotary_factor"] = 0.3;  // 19 lanes
  EXPECT_THAT(ErrorOf(config), HasSubstr("rotary_dim must be even"));
}

TEST(ParseHfTest, TopLevelOriginalLengthWins) {
  Json config = WithScaling(R"({"type": "longrope",
      "original_max_position_embeddings": 7})");
  config["original_max_position_embeddings"] = 4096;
  config["rope_scaling"]["short_factor"] = std::vector<double>(32, 1.0);
  config["rope_scaling"]["long_factor"] = std::vector<double>(32, 2.0);
  EXPECT_EQ(Parse(config).params.original_max_position_embeddings, 4096);

  config["rope_scaling"]["type"] = "su";  // its first name
  EXPECT_EQ(Parse(config).params.type, RopeType::kLongRope);
  config.erase("original_max_position_embeddings");
  EXPECT_EQ(Parse(config).params.original_max_position_embeddings, 7);
}

TEST(ParseHfTest, LongRopeListsMustBeNumbersOfTheRightCount) {
  Json config = WithScaling(R"({"type": "longrope",
      "short_factor": [1, 2], "long_factor": [1, "2"]})");
  EXPECT_THAT(ErrorOf(config), HasSubstr("rope_scaling.long_factor must be"));
  config["rope_scaling"]["long_factor"] = {1, 2};
  EXPECT_THAT(ErrorOf(config),
              HasSubstr("rope_scaling.short_factor must have rotary_dim / 2 = "
                        "32 values; has 2"));
}

// deepseek-ai/DeepSeek-R1#684: attn_factor is not attention_factor.
TEST(ParseHfTest, UnknownAndUnusedKeysAreReported) {
  const ParsedRope parsed = Parse(WithScaling(
      R"({"type": "yarn", "factor": 4, "attn_factor": 1.0,
          "low_freq_factor": 1})"));

  EXPECT_EQ(parsed.params.attention_factor, std::nullopt);
  EXPECT_THAT(
      parsed.warnings,
      ElementsAre("rope_scaling.attn_factor is not known and not used",
                  "rope_scaling.low_freq_factor is not used by yarn scaling"));
}

TEST(ParseHfTest, YarnFactorAgainstTheLengthsIsReported) {
  const ParsedRope parsed = Parse(WithScaling(
      R"({"type": "yarn", "factor": 4,
          "original_max_position_embeddings": 4096})"));

  EXPECT_EQ(parsed.params.factor, 4);
  EXPECT_THAT(parsed.warnings, ElementsAre(HasSubstr("using the factor")));
}

TEST(ParseHfTest, UniformNestedFormIsTheFlatOne) {
  Json config = WithParameters(
      R"({"full_attention": {"rope_type": "linear", "factor": 2,
                             "rope_theta": 100000.0},
          "sliding_attention": {"rope_type": "linear", "factor": 2.0,
                                "rope_theta": 100000.0}})");
  const EffectiveRope flat =
      Resolve(WithScaling(R"({"type": "linear", "factor": 2})"));

  EXPECT_EQ(Resolve(config).params, flat.params);
  EXPECT_EQ(Resolve(config).hash, flat.hash);
}

// ggml-org/llama.cpp#14367: Gemma 3's sliding layers are not scaled.
TEST(ParseHfTest, EncodingsThatDifferByLayerAreRefused) {
  EXPECT_THAT(ErrorOf(WithParameters(
                  R"({"full_attention": {"rope_type": "linear", "factor": 8,
                                 "rope_theta": 1e6},
              "sliding_attention": {"rope_type": "default",
                                    "rope_theta": 1e4}})")),
              HasSubstr("rope_parameters.sliding_attention must equal "
                        "rope_parameters.full_attention"));
  EXPECT_THAT(ErrorOf(WithParameters(
                  R"({"full_attention": null,
              "sliding_attention": {"rope_theta": 1e4}})")),
              HasSubstr("rope_parameters.full_attention must be an object"));
  Json gemma = Config();
  gemma["rope_local_base_freq"] = 10000.0;
  EXPECT_THAT(ErrorOf(gemma), HasSubstr("rope_local_base_freq"));
}

TEST(ParseHfTest, ErrorsInNestedFormsNameTheLayerType) {
  EXPECT_THAT(
      ErrorOf(WithParameters(R"({"full_attention": {"rope_type": "linear"}})")),
      HasSubstr("rope_parameters.full_attention.factor is missing"));
}

TEST(ParseHfTest, MultimodalPositionsAreTheDefaultForText) {
  const ParsedRope parsed =
      Parse(WithScaling(R"({"type": "mrope", "mrope_section": [8, 12, 12]})"));

  EXPECT_EQ(parsed.params, Parse(Config()).params);
}

TEST(ParseHfTest, DynamicAlphaIsAStaticBase) {
  const ParsedRope parsed =
      Parse(WithScaling(R"({"type": "dynamic", "alpha": 8.0, "factor": 1.0})"));

  EXPECT_EQ(parsed.params.type, RopeType::kDefault);
  RopeParams ntk = Parse(Config()).params;
  ntk.type = RopeType::kNtk;
  ntk.factor = 8;
  EXPECT_EQ(ResolveRope(parsed.params, RopePairing::kHalfSplit, 0)->hash,
            ResolveRope(ntk, RopePairing::kHalfSplit, 0)->hash);
  EXPECT_THAT(parsed.warnings, testing::Contains(HasSubstr("folded")));
}

TEST(ParseHfTest, ProportionalKeepsTheWholeHead) {
  const ParsedRope parsed = Parse(WithParameters(
      R"({"rope_type": "proportional", "rope_theta": 1e6,
          "partial_rotary_factor": 0.25})"));

  EXPECT_EQ(parsed.params.rotary_dim, 64);
  EXPECT_EQ(parsed.params.partial_rotary_factor, 0.25);
}

TEST(ParseHfTest, PositionsAreNeeded) {
  Json config = Config();
  config.erase("max_position_embeddings");
  EXPECT_THAT(ErrorOf(config), HasSubstr("max_position_embeddings is missing"));
  config["max_position_embeddings"] = 8192.5;
  EXPECT_THAT(ErrorOf(config),
              HasSubstr("max_position_embeddings must be a whole number"));
  config["max_position_embeddings"] = 0;
  EXPECT_THAT(ErrorOf(config), HasSubstr("max_position_embeddings must be"));
}

TEST(ParseHfTest, ConfigMustBeAnObject) {
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("object"));
}

}  // namespace
}  // namespace headrace
