// VectorService, and rows that requests keep, through a real client.
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VectorServiceTest : public ServerFixture {
 protected:
  grpc::Status Get(const std::string& sha256) {
    grpc::ClientContext context;
    v1::GetVectorRequest request;
    request.set_sha256(sha256);
    return vectors_->GetVector(&context, request, &found_);
  }
  grpc::Status Delete(const std::string& sha256) {
    grpc::ClientContext context;
    v1::DeleteVectorRequest request;
    request.set_sha256(sha256);
    v1::DeleteVectorResponse response;
    return vectors_->DeleteVector(&context, request, &response);
  }
  // Keeps resid_post of the prompt's last two rows.
  static v1::GenerateRequest Keeping(const std::string& text,
                                     uint32_t max_tokens) {
    v1::GenerateRequest request = Text(text, max_tokens);
    v1::CaptureSpec& capture = *request.mutable_capture();
    capture.add_hooks()->set_hook(v1::HOOK_POINT_RESID_POST);
    capture.mutable_rows()->mutable_prompt()->add_positions(-1);
    capture.mutable_rows()->mutable_prompt()->add_positions(-2);
    capture.mutable_keep();
    return request;
  }
  static v1::GenerateRequest Replacing(const std::string& handle,
                                       int64_t position) {
    v1::GenerateRequest request = Text("hello", 2);
    v1::Intervention& replace = *request.add_interventions();
    replace.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
    replace.mutable_rows()->mutable_prompt()->add_positions(position);
    replace.mutable_replace()->mutable_rows()->set_handle(handle);
    return request;
  }

  v1::GetVectorResponse found_;
};

TEST_F(VectorServiceTest, PutGetDelete) {
  Start();
  const std::string sha256 = Put({1, 2, 3});

  ASSERT_TRUE(Get(sha256).ok());
  EXPECT_EQ(found_.value_count(), 3u);
  EXPECT_TRUE(Delete(sha256).ok());
  const grpc::Status gone = Get(sha256);
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::NOT_FOUND);
  const auto info = DetailsOf<google::rpc::ResourceInfo>(gone);
  ASSERT_EQ(info.size(), 1u);
  EXPECT_EQ(info[0].resource_name(), sha256);
}

TEST_F(VectorServiceTest, AFullStoreSaysWhatItHolds) {
  Start({.max_vector_bytes = 1000});
  Put({1});
  grpc::ClientContext context;
  v1::PutVectorRequest request;
  request.set_f32(std::string(400, '\0'));
  v1::PutVectorResponse response;

  const grpc::Status status = vectors_->PutVector(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto failures = DetailsOf<google::rpc::QuotaFailure>(status);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_THAT(failures[0].violations(0).description(),
              HasSubstr("912 bytes do not fit beside the 516 that vectors and "
                        "kept rows take; the limit is 1000"));
}

TEST_F(VectorServiceTest, ARunningRequestKeepsItsVector) {
  Start({}, {.hidden_size = 4});
  absl::Notification stepped;
  absl::Notification deleted;
  engine_->on_step = [&](const Batch&) {
    if (stepped.HasBeenNotified()) return;
    stepped.Notify();
    deleted.WaitForNotification();
  };
  const std::string sha256 = Put({1, 2, 3, 4});
  v1::GenerateRequest request = Text("hello", 2);
  v1::Intervention& add = *request.add_interventions();
  add.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
  add.mutable_rows()->mutable_prompt()->set_all(true);
  add.mutable_add()->mutable_vector()->set_sha256(sha256);

  Answer answer;
  std::thread client([&] { answer = Generate(request); });
  stepped.WaitForNotification();
  EXPECT_TRUE(Delete(sha256).ok());
  deleted.Notify();
  client.join();

  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(VectorServiceTest, KeptRowsAreNamedAndNotSent) {
  Start();
  const Answer answer = Generate(Keeping("hello", 3));

  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  for (const v1::GenerateResponse& event : answer.events) {
    EXPECT_FALSE(event.has_activations());
  }
  const v1::KeptRows& kept = answer.events.back().end().kept();
  EXPECT_EQ(kept.rows(), 2u * 2);
  EXPECT_NEAR(kept.expires_in(), 3600, 60);
  ASSERT_TRUE(Get(kept.handle()).ok());
  ASSERT_EQ(found_.blocks_size(), 2);
  EXPECT_THAT(found_.blocks(1).positions(), ElementsAre(3, 4));
  EXPECT_EQ(found_.blocks(1).layer(), 1u);
  EXPECT_EQ(found_.f32().size(), 2u * 2 * 8 * sizeof(float));
  // The same rows have the same name, those of another position another.
  EXPECT_EQ(Generate(Keeping("hello", 3)).events.back().end().kept().handle(),
            kept.handle());
  EXPECT_NE(Generate(Keeping("hello!", 3)).events.back().end().kept().handle(),
            kept.handle());
}

TEST_F(VectorServiceTest, KeptRowsAreSentWhenAskedFor) {
  Start();
  v1::GenerateRequest request = Keeping("hello", 3);
  request.mutable_capture()->mutable_keep()->set_send(true);

  const Answer answer = Generate(request);
  uint32_t rows = 0;
  for (const v1::GenerateResponse& event : answer.events) {
    rows += event.activations().row_count();
  }
  EXPECT_EQ(rows, 4u);
  EXPECT_EQ(answer.events.back().end().kept().rows(), 4u);
}

TEST_F(VectorServiceTest, WhatKeptRowsMayTakeIsReservedBeforeTheRequestRuns) {
  Start({.max_vector_bytes = 700});
  // Two rows in two layers of 8 floats and a position, and the entry.
  EXPECT_TRUE(Generate(Keeping("hello", 3)).status.ok());
  const int64_t opened = engine_->opened();

  const grpc::Status status = Generate(Keeping("hello!", 3)).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(DetailsOf<google::rpc::QuotaFailure>(status).size(), 1u);
  EXPECT_EQ(engine_->opened(), opened);
}

TEST_F(VectorServiceTest, AFailedRequestKeepsNothing) {
  Start({.max_vector_bytes = 700});
  engine_->trouble = [](std::span<const int32_t>) {
    return absl::InternalError("broken");
  };
  EXPECT_EQ(Generate(Keeping("hello", 3)).status.error_code(),
            grpc::StatusCode::INTERNAL);
  engine_->trouble = nullptr;

  EXPECT_TRUE(Eventually([&] { return Idle(); }));
  EXPECT_TRUE(Generate(Keeping("hello", 3)).status.ok());
}

TEST_F(VectorServiceTest, AHandleMustHoldARowForEachSelectedPosition) {
  Start();
  const std::string handle =
      Generate(Keeping("hello", 3)).events.back().end().kept().handle();

  EXPECT_TRUE(Generate(Replacing(handle, 4)).status.ok());
  const grpc::Status missing = Generate(Replacing(handle, 1)).status;
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(missing.error_message(),
              HasSubstr("interventions[0].replace.rows.handle must hold a row "
                        "for position 1 of layer 0, which is selected; has "
                        "none at position 1"));
  const grpc::Status unknown =
      Generate(Replacing(std::string(64, '0'), 4)).status;
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  v1::GenerateRequest narrow = Replacing(handle, 4);
  narrow.mutable_interventions(0)->mutable_where()->set_hook(
      v1::HOOK_POINT_ATTN_NORM_SCALE);
  narrow.mutable_interventions(0)->mutable_replace()->mutable_rows()->set_hook(
      v1::HOOK_POINT_RESID_POST);
  EXPECT_THAT(Generate(narrow).status.error_message(),
              HasSubstr("must hold rows of 1 values, as many as the hook is "
                        "wide; has 8"));
}

TEST_F(VectorServiceTest, KeepingTakesOneChoiceAndHooksWithoutHeads) {
  Start();
  v1::GenerateRequest request = Keeping("hello", 3);
  request.mutable_sampling()->set_n(2);
  v1::HookSelector& probs = *request.mutable_capture()->add_hooks();
  probs.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  probs.add_heads(0);
  request.mutable_capture()->mutable_keep()->set_time_to_live(-1);

  const grpc::Status status = Generate(request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sampling.n is 2"));
  EXPECT_THAT(status.error_message(), HasSubstr("cannot keep attn_probs"));
  EXPECT_THAT(status.error_message(),
              HasSubstr("capture.keep.time_to_live must be above 0"));
}

}  // namespace
}  // namespace headrace
