#include "server/convert/models.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using ModelsTest = ConvertFixture;

TEST_F(ModelsTest, DescribesTheModel) {
  const auto response = HandleListModels({}, context_);

  ASSERT_TRUE(response.ok());
  ASSERT_THAT(response->models(), SizeIs(1));
  const v1::Model& model = response->models(0);
  EXPECT_EQ(model.name(), "fake");
  EXPECT_EQ(model.vocab_size(), 260u);
  EXPECT_EQ(model.tokenizer_vocab_size(), 260u);
  EXPECT_EQ(model.bos_token_id(), 256u);
  EXPECT_THAT(model.end_token_ids(), ElementsAre(257u, 259u));
  EXPECT_THAT(model.control_token_ids(), ElementsAre(256u, 257u, 258u, 259u));
  EXPECT_EQ(model.context_length(), 512u);
  EXPECT_EQ(model.rope().inv_freqs_size(), 2);
  EXPECT_FALSE(model.weights_processed());
}

TEST_F(ModelsTest, AnotherModelIsNotFound) {
  v1::GetModelRequest proto;
  proto.set_model("other");

  EXPECT_EQ(HandleGetModel(proto, context_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ModelsTest, ListsEveryHookWithItsReason) {
  const auto response = HandleListHookPoints({}, context_);

  ASSERT_TRUE(response.ok());
  ASSERT_THAT(response->hooks(), SizeIs(25));
  const v1::HookPointInfo& resid_post = response->hooks(21);
  EXPECT_EQ(resid_post.hook(), v1::HOOK_POINT_RESID_POST);
  EXPECT_EQ(resid_post.name(), "resid_post");
  EXPECT_EQ(resid_post.layer_count(), 2u);
  EXPECT_EQ(resid_post.bytes_per_row(), 32u);
  EXPECT_EQ(resid_post.transformer_lens(), "blocks.{l}.hook_resid_post");
  EXPECT_TRUE(resid_post.capturable());
  const v1::HookPointInfo& scores = response->hooks(10);
  EXPECT_FALSE(scores.capturable());
  EXPECT_FALSE(scores.refusal().empty());
}

}  // namespace
}  // namespace headrace
