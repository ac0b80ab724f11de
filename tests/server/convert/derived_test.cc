#include "server/convert/derived.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/convert/event_messages.h"
#include "server/convert/generate_request.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DerivedTest : public ConvertFixture {
 protected:
  void SetUp() override {
    UseEngine({.hidden_size = 4, .num_layers = 4});
    proto_.set_text("0123456789");
    proto_.mutable_stop()->set_max_tokens(5);
    proto_.mutable_capture()->mutable_rows()->mutable_prompt()->set_all(true);
  }
  v1::DerivedSpec& Add() { return *proto_.mutable_capture()->add_derived(); }
  Request Resolve() {
    const auto resolved = ResolveGenerate(proto_, context_);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return resolved.ok() ? resolved->request : Request{};
  }
  std::vector<std::string> Refused() {
    return ViolationsOf(ResolveGenerate(proto_, context_).status());
  }

  v1::GenerateRequest proto_;
};

TEST_F(DerivedTest, EveryKindArrivesWithItsLayout) {
  Add().mutable_logit_lens()->set_top_k(3);
  proto_.mutable_capture()
      ->mutable_derived(0)
      ->mutable_logit_lens()
      ->add_token_ids(65);
  v1::LogitAttribution& attribution = *Add().mutable_direct_logit_attribution();
  attribution.add_token_ids(66);
  attribution.add_contrast_ids(67);
  attribution.set_by_head(true);
  v1::Projection& projection = *Add().mutable_projection();
  projection.mutable_where()->set_hook(v1::HOOK_POINT_RESID_MID);
  projection.mutable_where()->add_layers(1);
  const float ones[4] = {1, 1, 1, 1};
  projection.add_vectors()->set_f32(
      std::string(reinterpret_cast<const char*>(ones), sizeof(ones)));
  Add().mutable_norm()->mutable_where()->set_hook(v1::HOOK_POINT_RESID_PRE);
  Add().mutable_cosine()->mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);

  const Request request = Resolve();

  const std::vector<DerivedSpec>& specs = request.sequence.capture.derived;
  ASSERT_THAT(specs, SizeIs(5));
  EXPECT_EQ(specs[0].kind, DerivedKind::kLogitLens);
  EXPECT_EQ(specs[0].where.hook, HookPoint::kResidPost);
  EXPECT_THAT(specs[0].where.layers, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(specs[0].token_ids, ElementsAre(65));
  EXPECT_EQ(specs[1].kind, DerivedKind::kAttribution);
  EXPECT_THAT(specs[1].contrast_ids, ElementsAre(67));
  EXPECT_TRUE(specs[1].by_head);
  EXPECT_THAT(specs[2].vectors, ElementsAre(ElementsAre(1, 1, 1, 1)));
  EXPECT_THAT(specs[2].where.layers, ElementsAre(1));
  EXPECT_EQ(specs[3].kind, DerivedKind::kNorm);
  EXPECT_EQ(specs[4].kind, DerivedKind::kCosine);

  ASSERT_THAT(request.layout.hooks, SizeIs(5));
  const HookLayout& lens = request.layout.Get(0, HookPoint::kResidPost);
  EXPECT_EQ(lens.width, 3 + 2);
  EXPECT_EQ(lens.row_bytes, 4 * (5 + 3));
  const HookLayout& logits = request.layout.Get(1, HookPoint::kLogits);
  EXPECT_EQ(logits.width, 1 + 4 * (2 + 1) + 2);
  EXPECT_EQ(logits.rows_per_position, 1);
  EXPECT_EQ(request.layout.rows_per_position, 4 + 1 + 1 + 4 + 4);
}

TEST_F(DerivedTest, EveryFaultIsNamed) {
  Add();  // no kind
  v1::LogitLens& lens = *Add().mutable_logit_lens();
  lens.mutable_where()->set_hook(v1::HOOK_POINT_LOGITS);
  lens.set_top_k(257);
  Add().mutable_logit_lens();  // neither top_k nor tokens
  Add().mutable_direct_logit_attribution();
  v1::LogitAttribution& attribution = *Add().mutable_direct_logit_attribution();
  attribution.add_token_ids(1 << 20);
  attribution.add_contrast_ids(1);
  attribution.add_contrast_ids(2);
  v1::Projection& projection = *Add().mutable_projection();
  projection.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
  projection.add_vectors()->set_f32("123");
  v1::LayerCosine& cosine = *Add().mutable_cosine();
  cosine.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
  cosine.mutable_where()->add_layers(0);
  Add().mutable_norm();  // no hook

  const std::vector<std::string> refused = Refused();

  const std::string path = "capture.derived";
  for (const std::string field :
       {"[0].kind", "[1].logit_lens.where.hook", "[1].logit_lens.top_k",
        "[2].logit_lens.top_k", "[3].direct_logit_attribution.token_ids",
        "[4].direct_logit_attribution.token_ids[0]",
        "[4].direct_logit_attribution.contrast_ids",
        "[5].projection.vectors[0].f32", "[6].cosine.where.layers",
        "[7].norm.where.hook"}) {
    EXPECT_THAT(refused, Contains(HasSubstr(path + field + ":"))) << field;
  }
}

TEST_F(DerivedTest, ChunksBecomeTheirOwnMessage) {
  ActivationChunk chunk{
      .derived = 2, .hook = HookPoint::kResidPost, .layer = 3};
  chunk.width = 2;
  chunk.positions = {7};
  chunk.tokens = {65};
  const float values[2] = {-1.5f, -2.5f};
  chunk.data.assign(reinterpret_cast<const char*>(values), sizeof(values));
  chunk.ids = {66, 67};

  const v1::Derived proto = DerivedToProto(chunk, context_.engine->tokenizer());

  EXPECT_EQ(proto.spec(), 2u);
  EXPECT_EQ(proto.hook(), v1::HOOK_POINT_RESID_POST);
  EXPECT_EQ(proto.layer(), 3u);
  EXPECT_EQ(proto.row_count(), 1u);
  EXPECT_THAT(proto.positions(), ElementsAre(7));
  EXPECT_THAT(proto.ids(), ElementsAre(66, 67));
  EXPECT_THAT(proto.pieces(), ElementsAre("B", "C"));
  EXPECT_EQ(proto.values(), chunk.data);
}

}  // namespace
}  // namespace headrace
