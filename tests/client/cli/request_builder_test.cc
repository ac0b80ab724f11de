#include "client/cli/request_builder.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RequestBuilderTest, UnsetStaysUnset) {
  const auto request = BuildGenerateRequest({});

  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->sampling().has_temperature());
  EXPECT_FALSE(request->sampling().has_seed());
  EXPECT_FALSE(request->stop().has_max_tokens());
  EXPECT_FALSE(request->has_context_extension());
  EXPECT_FALSE(request->has_logprobs());
}

TEST(RequestBuilderTest, SeedsKeepAllSixtyFourBits) {
  v1::SamplingParams sampling;
  ASSERT_TRUE(SetSampling({.seed = "18446744073709551615"}, sampling).ok());
  EXPECT_EQ(sampling.seed(), 18446744073709551615u);
  ASSERT_TRUE(SetSampling({.seed = "9007199254740993"}, sampling).ok());
  EXPECT_EQ(sampling.seed(), 9007199254740993u);
}

TEST(RequestBuilderTest, SeedsOutOfRangeAreRefusedWithTheRange) {
  v1::SamplingParams sampling;
  for (const char* seed : {"-1", "18446744073709551616", "1.5", "x"}) {
    const absl::Status status = SetSampling({.seed = seed}, sampling);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("[0, 18446744073709551615]"))
        << seed;
  }
}

TEST(RequestBuilderTest, PromptFilesKeepEveryByte) {
  TempFolder folder;
  const std::string bytes("ab\0cd", 5);
  WriteFile(folder.Join("prompt"), bytes);
  CliOptions options;
  options.prompt.file = folder.Join("prompt");
  v1::GenerateRequest request;

  ASSERT_TRUE(SetPrompt(options, request).ok());

  EXPECT_EQ(request.text(), bytes);
}

TEST(RequestBuilderTest, ExactlyOnePromptIsTaken) {
  v1::GenerateRequest request;
  EXPECT_FALSE(SetPrompt({}, request).ok());
  CliOptions both;
  both.prompt.text = "a";
  both.prompt.tokens = "1";
  EXPECT_FALSE(SetPrompt(both, request).ok());
}

TEST(RequestBuilderTest, TokensAreParsedOrNamed) {
  EXPECT_THAT(ParseTokens("1, 2,3")->ids(), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::string(ParseTokens("1,-2").status().message()),
              HasSubstr("'-2'"));
}

TEST(RequestBuilderTest, ScalingMethodsTakeTheirFields) {
  v1::ContextExtension extension;
  ASSERT_TRUE(SetContextExtension({.scaling = "yarn",
                                   .factor = 4,
                                   .beta_fast = 16,
                                   .max_context = 2048},
                                  extension)
                  .ok());
  EXPECT_EQ(extension.rope_scaling().yarn().factor(), 4);
  EXPECT_EQ(extension.rope_scaling().yarn().beta_fast(), 16);
  EXPECT_FALSE(extension.rope_scaling().yarn().has_beta_slow());
  EXPECT_EQ(extension.max_context(), 2048u);
}

TEST(RequestBuilderTest, UnknownScalingIsRefusedWithTheNames) {
  v1::ContextExtension extension;
  EXPECT_THAT(
      std::string(
          SetContextExtension({.scaling = "yarnn"}, extension).message()),
      HasSubstr("dynamic_ntk, yarn"));
  EXPECT_FALSE(SetContextExtension({.factor = 2}, extension).ok());
}

}  // namespace
}  // namespace headrace::cli
