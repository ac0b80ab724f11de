#include "server/convert/interventions.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/convert/generate_request.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class InterventionsTest : public ConvertFixture {
 protected:
  void SetUp() override {
    UseEngine({.hidden_size = 4, .num_layers = 4});
    proto_.set_text("0123456789");
    proto_.mutable_stop()->set_max_tokens(5);
  }
  v1::Intervention& Add() {
    v1::Intervention& proto = *proto_.add_interventions();
    proto.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
    proto.mutable_rows()->mutable_prompt()->set_all(true);
    return proto;
  }
  std::vector<Intervention> Resolve() {
    const auto resolved = ResolveGenerate(proto_, context_);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return resolved.ok() ? resolved->request.sequence.interventions
                         : std::vector<Intervention>{};
  }
  std::vector<std::string> Refused() {
    return ViolationsOf(ResolveGenerate(proto_, context_).status());
  }

  v1::GenerateRequest proto_;
};

TEST_F(InterventionsTest, EveryOpArrives) {
  Add().mutable_add()->mutable_vector()->set_f32(Bytes({1, 2, 3, 4}));
  Add().mutable_scale()->set_factor(-2);
  Add().mutable_project_out()->mutable_vector()->set_f32(Bytes({0, 1, 0, 0}));
  v1::CapProjection& cap = *Add().mutable_cap();
  cap.mutable_vector()->set_f32(Bytes({0, 0, 1, 0}));
  cap.set_limit(3);
  Add().mutable_replace()->mutable_vector()->set_f32(Bytes({9, 9, 9, 9}));
  v1::Intervention& zero = Add();
  zero.mutable_zero();
  zero.mutable_where()->add_layers(-1);

  const std::vector<Intervention> resolved = Resolve();

  ASSERT_THAT(resolved, SizeIs(6));
  EXPECT_EQ(resolved[0].op, InterventionOp::kAdd);
  EXPECT_THAT(resolved[0].vector, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(resolved[0].value, 1);
  EXPECT_THAT(resolved[0].where.layers, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(resolved[0].rows.prompt.all);
  EXPECT_EQ(resolved[1].op, InterventionOp::kScale);
  EXPECT_EQ(resolved[1].value, -2);
  EXPECT_EQ(resolved[2].op, InterventionOp::kProjectOut);
  EXPECT_EQ(resolved[2].value, 1);
  EXPECT_EQ(resolved[3].op, InterventionOp::kCap);
  EXPECT_EQ(resolved[3].value, 3);
  EXPECT_EQ(resolved[4].op, InterventionOp::kReplace);
  EXPECT_EQ(resolved[5].op, InterventionOp::kZero);
  EXPECT_THAT(resolved[5].where.layers, ElementsAre(3));
}

TEST_F(InterventionsTest, EveryFaultIsNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Add();  // no op
  Add().mutable_add()->mutable_vector()->set_f32(Bytes({1, 2}));
  Add().mutable_replace()->mutable_vector()->set_f32(Bytes({1, nan, 3, 4}));
  Add().mutable_project_out()->mutable_vector()->set_f32(Bytes({0, 0, 0, 0}));
  Add().mutable_scale()->set_factor(nan);
  v1::Intervention& no_rows = Add();
  no_rows.clear_rows();
  no_rows.mutable_zero();
  v1::Intervention& read_only = Add();
  read_only.mutable_zero();
  read_only.mutable_where()->set_hook(v1::HOOK_POINT_LOGITS);
  v1::Intervention& no_layer = Add();
  no_layer.mutable_zero();
  no_layer.mutable_where()->add_layers(4);

  const std::vector<std::string> refused = Refused();

  EXPECT_THAT(refused, Contains(HasSubstr("interventions[0].op")));
  EXPECT_THAT(refused,
              Contains(HasSubstr("interventions[1].add.vector.f32: must hold 4 "
                                 "float32 values in 16 bytes, as many as the "
                                 "hook is wide; has 8 bytes")));
  EXPECT_THAT(refused,
              Contains(HasSubstr("interventions[2].replace.vector.f32[1]")));
  EXPECT_THAT(refused,
              Contains(HasSubstr("interventions[3].project_out.vector: must "
                                 "not be zero")));
  EXPECT_THAT(refused, Contains(HasSubstr("interventions[4].scale.factor")));
  EXPECT_THAT(refused, Contains(HasSubstr("interventions[5].rows")));
  EXPECT_THAT(refused, Contains(HasSubstr(
                           "interventions[6].where.hook: logits cannot be "
                           "changed: the fake model only shows it")));
  EXPECT_THAT(refused, Contains(HasSubstr("interventions[7].where.layers[0]")));
}

TEST_F(InterventionsTest, ThereMayBeSixtyFour) {
  for (int i = 0; i < 64; ++i) Add().mutable_zero();
  EXPECT_THAT(Resolve(), SizeIs(64));
  Add().mutable_zero();
  EXPECT_THAT(
      Refused(),
      ElementsAre(HasSubstr("interventions: must be at most 64; are 65")));
}

TEST_F(InterventionsTest, ForwardTakesThemToo) {
  v1::ForwardRequest forward;
  forward.set_text("0123");
  Add().mutable_zero();
  *forward.mutable_interventions() = proto_.interventions();
  proto_ = AsGenerate(forward);
  EXPECT_THAT(Resolve(), SizeIs(1));
}

}  // namespace
}  // namespace headrace
