#include "server/convert/rope.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

using Kind = RopeRequest::Kind;

TEST(RopeConversionTest, UnsetNoneAndAutoAreDifferent) {
  v1::ContextExtension proto;
  EXPECT_EQ(ToRopeRequest(proto).kind, Kind::kUnset);
  proto.mutable_rope_scaling()->mutable_none();
  EXPECT_EQ(ToRopeRequest(proto).kind, Kind::kNone);
  proto.mutable_rope_scaling()->mutable_auto_();
  EXPECT_EQ(ToRopeRequest(proto).kind, Kind::kAuto);
}

TEST(RopeConversionTest, UnsetFieldsStayUnset) {
  v1::ContextExtension proto;
  v1::YarnScaling& yarn = *proto.mutable_rope_scaling()->mutable_yarn();
  yarn.set_beta_fast(16);
  yarn.set_truncate(false);
  proto.set_max_context(2048);

  const RopeRequest request = ToRopeRequest(proto);

  EXPECT_EQ(request.kind, Kind::kScaling);
  EXPECT_EQ(request.scaling.type, RopeType::kYarn);
  EXPECT_FALSE(request.scaling.factor.has_value());
  EXPECT_EQ(request.scaling.beta_fast, 16);
  EXPECT_EQ(request.scaling.truncate, false);
  EXPECT_FALSE(request.rope_theta.has_value());
  EXPECT_EQ(request.max_context, 2048);
}

TEST(RopeConversionTest, EveryMethodHasItsType) {
  v1::RopeScaling scaling;
  const auto type = [&scaling] {
    v1::ContextExtension proto;
    *proto.mutable_rope_scaling() = scaling;
    return ToRopeRequest(proto).scaling.type;
  };
  scaling.mutable_linear()->set_factor(2);
  EXPECT_EQ(type(), RopeType::kLinear);
  scaling.mutable_ntk()->set_factor(2);
  EXPECT_EQ(type(), RopeType::kNtk);
  scaling.mutable_dynamic_ntk()->set_factor(2);
  EXPECT_EQ(type(), RopeType::kDynamicNtk);
  scaling.mutable_longrope()->add_long_factor(2);
  EXPECT_EQ(type(), RopeType::kLongRope);
  scaling.mutable_llama3()->set_factor(2);
  EXPECT_EQ(type(), RopeType::kLlama3);
  scaling.mutable_proportional()->set_partial_rotary_factor(0.5);
  EXPECT_EQ(type(), RopeType::kProportional);
}

TEST(RopeConversionTest, EffectiveRopeTellsEverything) {
  EffectiveRope rope{.params = {.type = RopeType::kYarn,
                                .rope_theta = 5e5,
                                .head_dim = 8,
                                .rotary_dim = 4,
                                .factor = 4.0,
                                .truncate = true},
                     .pairing = RopePairing::kInterleaved,
                     .inv_freqs = {1.0, 0.25},
                     .attention_factor = 1.1,
                     .context_length = 4096,
                     .hash = 0x123456789ABCDEF0u};

  const v1::EffectiveRope proto = ToProto(rope);

  EXPECT_EQ(proto.type(), v1::ROPE_TYPE_YARN);
  EXPECT_EQ(proto.rope_theta(), 5e5);
  EXPECT_EQ(proto.pairing(), v1::ROPE_PAIRING_INTERLEAVED);
  EXPECT_THAT(proto.inv_freqs(), ElementsAre(1.0, 0.25));
  EXPECT_EQ(proto.hash(), 0x123456789ABCDEF0u);
  EXPECT_EQ(proto.factor(), 4.0);
  EXPECT_TRUE(proto.truncate());
  EXPECT_FALSE(proto.has_beta_fast());
  EXPECT_EQ(ToProto(std::nullopt).type(), v1::ROPE_TYPE_NO_ROPE);
}

}  // namespace
}  // namespace headrace
