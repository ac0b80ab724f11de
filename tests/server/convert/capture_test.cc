#include "server/convert/capture.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/convert/capture_estimate.h"
#include "server/convert/enums.h"
#include "server/convert/generate_request.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class CaptureTest : public ConvertFixture {
 protected:
  void SetUp() override {
    UseEngine({.num_layers = 4});
    proto_.set_text("0123456789");
    proto_.mutable_stop()->set_max_tokens(5);
  }

  v1::CaptureSpec& capture() { return *proto_.mutable_capture(); }
  v1::HookSelector& AddHook(v1::HookPoint hook) {
    v1::HookSelector& selector = *capture().add_hooks();
    selector.set_hook(hook);
    return selector;
  }
  Request Resolve() {
    const auto resolved = ResolveGenerate(proto_, context_);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    return resolved.ok() ? resolved->request : Request{};
  }
  std::vector<std::string> Refused() {
    return ViolationsOf(ResolveGenerate(proto_, context_).status());
  }
  std::vector<std::string> RefusedFields() {
    return FieldsOf(ResolveGenerate(proto_, context_).status());
  }
  // Positions of the prompt that are selected.
  std::vector<int64_t> PromptRows() {
    const Request request = Resolve();
    std::vector<int64_t> rows;
    for (int64_t p = 0; p < 10; ++p) {
      if (request.sequence.capture.rows.Selects(p, request.sequence.prompt[p],
                                                10)) {
        rows.push_back(p);
      }
    }
    return rows;
  }

  v1::GenerateRequest proto_;
};

TEST_F(CaptureTest, HooksAreNumberedAsInTheEngine) {
  for (const HookPointInfo& info : AllHookPoints()) {
    std::string name = v1::HookPoint_Name(ToProto(info.hook));
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(name, "hook_point_" + std::string(info.name));
    EXPECT_EQ(FromProto(ToProto(info.hook)), info.hook);
  }
  EXPECT_FALSE(FromProto(v1::HOOK_POINT_UNSPECIFIED).has_value());
  EXPECT_FALSE(FromProto(static_cast<v1::HookPoint>(26)).has_value());
}

TEST_F(CaptureTest, LayersAreJoinedAndSorted) {
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  AddHook(v1::HOOK_POINT_RESID_POST).add_layers(-1);
  AddHook(v1::HOOK_POINT_EMBED);
  v1::LayerRange& range = *AddHook(v1::HOOK_POINT_RESID_POST).add_ranges();
  range.set_begin(0);
  range.set_end(-2);

  const Request request = Resolve();

  ASSERT_THAT(request.sequence.capture.hooks, SizeIs(2));
  EXPECT_THAT(request.sequence.capture.hooks[0].layers, ElementsAre(-1));
  EXPECT_THAT(request.sequence.capture.hooks[1].layers, ElementsAre(0, 1, 3));
}

TEST_F(CaptureTest, NoLayersMeansAllOfThem) {
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  AddHook(v1::HOOK_POINT_RESID_PRE);

  EXPECT_THAT(Resolve().sequence.capture.hooks[0].layers,
              ElementsAre(0, 1, 2, 3));
}

TEST_F(CaptureTest, ARangeToTheEndMayEndInZero) {
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  AddHook(v1::HOOK_POINT_RESID_PRE).add_ranges()->set_begin(-2);

  EXPECT_THAT(Resolve().sequence.capture.hooks[0].layers, ElementsAre(2, 3));
}

TEST_F(CaptureTest, WhatIsNotThereIsRefusedWithTheReason) {
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  AddHook(v1::HOOK_POINT_UNSPECIFIED);
  AddHook(static_cast<v1::HookPoint>(99));
  AddHook(v1::HOOK_POINT_ATTN_SCORES);
  AddHook(v1::HOOK_POINT_RESID_POST).add_layers(4);
  AddHook(v1::HOOK_POINT_RESID_POST).add_ranges()->set_begin(3);
  AddHook(v1::HOOK_POINT_LOGITS).add_layers(0);
  AddHook(v1::HOOK_POINT_ATTN_OUT).add_heads(1);

  const std::vector<std::string> refused = Refused();

  EXPECT_THAT(refused,
              UnorderedElementsAre(
                  HasSubstr("hooks[0].hook"), HasSubstr("hooks[1].hook"),
                  HasSubstr("hooks[2].hook"), HasSubstr("hooks[3].layers[0]"),
                  HasSubstr("hooks[4].ranges[0]"), HasSubstr("hooks[5].layers"),
                  HasSubstr("hooks[6].heads")));
  EXPECT_THAT(refused, Contains(HasSubstr("the fake model does not compute")));
}

TEST_F(CaptureTest, RowsAreRequired) {
  AddHook(v1::HOOK_POINT_EMBED);

  EXPECT_THAT(RefusedFields(), ElementsAre("capture.rows"));
}

TEST_F(CaptureTest, HooksAreRequiredUnlessChecksAreAskedFor) {
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  EXPECT_THAT(RefusedFields(), ElementsAre("capture.hooks"));
  capture().set_checks(true);
  EXPECT_TRUE(Resolve().sequence.capture.checks);
}

TEST_F(CaptureTest, NegativePositionsCountFromTheEndOfThePrompt) {
  AddHook(v1::HOOK_POINT_EMBED);
  v1::PhaseRows& prompt = *capture().mutable_rows()->mutable_prompt();
  prompt.add_positions(-1);
  prompt.add_positions(0);
  v1::PositionWindow& window = *prompt.add_windows();
  window.set_begin(-5);
  window.set_stride(2);
  capture().mutable_rows()->add_exclude_positions(-3);

  EXPECT_THAT(PromptRows(), ElementsAre(0, 5, 9));
}

TEST_F(CaptureTest, AStrideThinsAllRows) {
  AddHook(v1::HOOK_POINT_EMBED);
  v1::PhaseRows& prompt = *capture().mutable_rows()->mutable_prompt();
  prompt.set_all(true);
  prompt.set_stride(4);
  EXPECT_THAT(PromptRows(), ElementsAre(0, 4, 8));
  prompt.set_all(false);
  prompt.set_last(true);
  EXPECT_THAT(RefusedFields(), ElementsAre("capture.rows.prompt.stride"));
}

TEST_F(CaptureTest, PositionsOutsideTheirPhaseAreRefused) {
  AddHook(v1::HOOK_POINT_EMBED);
  v1::RowSelector& rows = *capture().mutable_rows();
  rows.mutable_prompt()->add_positions(10);
  rows.mutable_prompt()->add_positions(-11);
  rows.mutable_generated()->add_positions(9);
  rows.mutable_generated()->add_positions(10);
  rows.mutable_generated()->set_last(true);
  rows.add_exclude_positions(-11);

  EXPECT_THAT(RefusedFields(),
              UnorderedElementsAre("capture.rows.prompt.positions[0]",
                                   "capture.rows.prompt.positions[1]",
                                   "capture.rows.generated.positions[0]",
                                   "capture.rows.generated.last",
                                   "capture.rows.exclude_positions[0]"));
}

TEST_F(CaptureTest, EveryPolicyAndWireTypeArrives) {
  AddHook(v1::HOOK_POINT_EMBED);
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  EXPECT_EQ(Resolve().delivery.policy, SlowReaderPolicy::kPauseSequence);
  EXPECT_EQ(Resolve().delivery.dtype, WireDtype::kF32);

  const std::pair<v1::SlowReaderPolicy, SlowReaderPolicy> policies[] = {
      {v1::SLOW_READER_POLICY_PAUSE_SEQUENCE, SlowReaderPolicy::kPauseSequence},
      {v1::SLOW_READER_POLICY_DROP_WITH_GAPS, SlowReaderPolicy::kDropWithGaps},
      {v1::SLOW_READER_POLICY_CANCEL, SlowReaderPolicy::kCancel}};
  for (const auto& [asked, resolved] : policies) {
    capture().set_policy(asked);
    EXPECT_EQ(Resolve().delivery.policy, resolved);
  }
  const std::pair<v1::WireDtype, WireDtype> dtypes[] = {
      {v1::WIRE_DTYPE_F32, WireDtype::kF32},
      {v1::WIRE_DTYPE_BF16, WireDtype::kBF16},
      {v1::WIRE_DTYPE_F16, WireDtype::kF16},
      {v1::WIRE_DTYPE_INT8, WireDtype::kInt8}};
  for (const auto& [asked, resolved] : dtypes) {
    capture().set_dtype(asked);
    EXPECT_EQ(Resolve().delivery.dtype, resolved);
  }
}

TEST_F(CaptureTest, UnsupportedDeliveryIsRefused) {
  AddHook(v1::HOOK_POINT_EMBED);
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  capture().set_dtype(static_cast<v1::WireDtype>(9));
  capture().set_policy(static_cast<v1::SlowReaderPolicy>(9));
  capture().set_chunk_bytes(100);

  EXPECT_THAT(RefusedFields(),
              UnorderedElementsAre("capture.dtype", "capture.policy",
                                   "capture.chunk_bytes"));
}

TEST_F(CaptureTest, EstimateCountsRowsBytesAndMessages) {
  AddHook(v1::HOOK_POINT_RESID_POST);
  AddHook(v1::HOOK_POINT_EMBED);
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  capture().mutable_rows()->mutable_generated()->set_all(true);
  proto_.mutable_sampling()->set_n(2);
  v1::EstimateCaptureRequest estimate;
  *estimate.mutable_request() = proto_;

  const auto response = HandleEstimateCapture(estimate, context_);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->prompt_token_count(), 10u);
  EXPECT_EQ(response->prompt_rows(), 10u * 5);
  EXPECT_EQ(response->generated_rows_max(), 2u * 4 * 5)
      << "the last of 5 tokens has no row";
  EXPECT_EQ(response->bytes_max(), (50u + 40u) * 8 * 4);
  EXPECT_EQ(response->messages_max(), 5u + 40u);
  const auto resolved = ResolveGenerate(proto_, context_);
  EXPECT_EQ(resolved->header.activation_rows_expected(), 90u);
  EXPECT_EQ(resolved->header.activation_bytes_expected(),
            response->bytes_max());
  ASSERT_THAT(resolved->header.hooks(), SizeIs(2));
  EXPECT_EQ(resolved->header.hooks(1).width(), 8u);
}

TEST_F(CaptureTest, GeneratedRowsByTokenAreCountedAtTheMost) {
  AddHook(v1::HOOK_POINT_EMBED);
  capture().mutable_rows()->mutable_generated()->add_token_ids('x');

  EXPECT_EQ(EstimateCapture(Resolve()).generated_rows_max, 4);
}

TEST_F(CaptureTest, SelectorsAndRangesAreCounted) {
  for (int i = 0; i < 1025; ++i) {
    AddHook(v1::HOOK_POINT_RESID_POST);
    capture().mutable_hooks(0)->add_ranges()->set_end(1);
  }
  capture().mutable_rows()->mutable_prompt()->set_all(true);
  EXPECT_THAT(RefusedFields(), ElementsAre("capture.hooks"));

  capture().mutable_hooks()->DeleteSubrange(1, 1024);
  EXPECT_THAT(RefusedFields(), ElementsAre("capture.hooks[0].ranges"));
}

}  // namespace
}  // namespace headrace
