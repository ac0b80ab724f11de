#include "server/convert/embed_request.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class EmbedRequestTest : public ConvertFixture {
 protected:
  static v1::EmbedRequest Texts(std::vector<std::string> texts) {
    v1::EmbedRequest proto;
    for (const std::string& text : texts) proto.add_inputs()->set_text(text);
    return proto;
  }
};

TEST_F(EmbedRequestTest, DefaultsToTheMeanOfTheFinalNorm) {
  const auto embed = ResolveEmbed(Texts({"ab", "c"}), context_);

  ASSERT_TRUE(embed.ok()) << embed.status();
  EXPECT_EQ(embed->hook, HookPoint::kFinalNormOut);
  EXPECT_EQ(embed->layer, -1);
  EXPECT_EQ(embed->pooling, Pooling::kMean);
  EXPECT_FALSE(embed->normalize);
  ASSERT_EQ(embed->requests.size(), 2u);
  EXPECT_TRUE(embed->requests[0].sequence.capture.rows.prompt.all);
  EXPECT_EQ(embed->requests[0].stop.max_tokens, 0);
}

TEST_F(EmbedRequestTest, AHookWithLayersDefaultsToTheLast) {
  v1::EmbedRequest proto = Texts({"ab"});
  proto.set_hook(v1::HOOK_POINT_RESID_POST);
  EXPECT_EQ(ResolveEmbed(proto, context_)->layer, 1);
  proto.set_layer(-2);
  EXPECT_EQ(ResolveEmbed(proto, context_)->layer, 0);
}

TEST_F(EmbedRequestTest, LastTakesOneRow) {
  v1::EmbedRequest proto = Texts({"ab"});
  proto.set_pooling(v1::POOLING_LAST);

  const auto embed = ResolveEmbed(proto, context_);

  const PhaseRows& rows = embed->requests[0].sequence.capture.rows.prompt;
  EXPECT_FALSE(rows.all);
  EXPECT_TRUE(rows.last);
}

TEST_F(EmbedRequestTest, EveryFaultIsNamed) {
  v1::EmbedRequest proto = Texts({"", std::string(513, 'a')});
  proto.add_inputs()->mutable_tokens()->add_ids(260);
  proto.add_inputs();
  proto.set_hook(v1::HOOK_POINT_RESID_POST);
  proto.set_layer(2);
  proto.mutable_context_extension()->set_rope_theta(0.5);

  EXPECT_THAT(
      FieldsOf(ResolveEmbed(proto, context_).status()),
      UnorderedElementsAre("layer", "inputs[0]", "context_extension.rope_theta",
                           "inputs[2].tokens.ids[0]", "inputs[3]"));
  proto.clear_context_extension();
  EXPECT_THAT(ViolationsOf(ResolveEmbed(proto, context_).status()),
              ::testing::Contains(HasSubstr("inputs[1]: must leave room")));
}

TEST_F(EmbedRequestTest, InputsAreCounted) {
  EXPECT_THAT(FieldsOf(ResolveEmbed(Texts({}), context_).status()),
              ElementsAre("inputs"));
  EXPECT_THAT(
      FieldsOf(ResolveEmbed(Texts(std::vector<std::string>(65, "a")), context_)
                   .status()),
      ElementsAre("inputs"));
}

TEST_F(EmbedRequestTest, ALargeReplyIsRefusedBeforeAnythingIsComputed) {
  UseEngine({.hidden_size = 1 << 17});

  EXPECT_EQ(ResolveEmbed(Texts(std::vector<std::string>(9, "a")), context_)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(EmbedRequestTest, TheReplyIsRowMajorFloats) {
  const auto embed = ResolveEmbed(Texts({"ab", "c"}), context_);

  const v1::EmbedResponse response =
      MakeEmbedResponse(*embed, {{1, 2, 3, 4, 5, 6, 7, 8}, {9}});

  EXPECT_EQ(response.width(), 8u);
  EXPECT_THAT(response.token_counts(), ElementsAre(2u, 1u));
  EXPECT_EQ(response.data().size(), 9 * sizeof(float));
  float last = 0;
  std::memcpy(&last, response.data().data() + 32, 4);
  EXPECT_EQ(last, 9.0f);
}

}  // namespace
}  // namespace headrace
