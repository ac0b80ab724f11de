#include "server/convert/vectors.h"

#include <string>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "server/convert/generate_request.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VectorsTest : public ConvertFixture {
 protected:
  void SetUp() override { UseEngine({.hidden_size = 4, .num_layers = 2}); }

  std::string Put(const std::string& bytes) {
    v1::PutVectorRequest request;
    request.set_f32(bytes);
    const auto response = HandlePutVector(request, context_);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->sha256() : "";
  }
  absl::StatusOr<v1::GetVectorResponse> Get(const std::string& sha256) {
    v1::GetVectorRequest request;
    request.set_sha256(sha256);
    return HandleGetVector(request, context_);
  }
  // A request that adds the vector of that name.
  static v1::GenerateRequest Adding(const std::string& sha256) {
    v1::GenerateRequest request;
    request.set_text("0123");
    request.mutable_stop()->set_max_tokens(2);
    v1::Intervention& add = *request.add_interventions();
    add.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
    add.mutable_rows()->mutable_prompt()->set_all(true);
    add.mutable_add()->mutable_vector()->set_sha256(sha256);
    return request;
  }
};

TEST_F(VectorsTest, WhatWasPutIsFoundByTheHashOfItsBytes) {
  const std::string bytes = Bytes({1, 2, 3, 4});
  const std::string sha256 = Put(bytes);

  const auto found = Get(sha256);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->f32(), bytes);
  EXPECT_EQ(found->value_count(), 4u);
  EXPECT_EQ(found->expires_in(), 3600);
  EXPECT_EQ(Put(bytes), sha256);
}

TEST_F(VectorsTest, ItsTimePasses) {
  v1::PutVectorRequest request;
  request.set_f32(Bytes({1}));
  request.set_time_to_live(2.5);
  const auto put = HandlePutVector(request, context_);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->expires_in(), 2.5);

  now_ += absl::Seconds(3);
  EXPECT_EQ(Get(put->sha256()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(VectorsTest, EveryBadFieldOfAPutIsNamed) {
  v1::PutVectorRequest request;
  request.set_f32("12345");
  request.set_time_to_live(1e9);

  EXPECT_THAT(ViolationsOf(HandlePutVector(request, context_).status()),
              ElementsAre(AllOf(HasSubstr("f32: "), HasSubstr("has 5 bytes")),
                          HasSubstr("time_to_live: must be above 0 and at most "
                                    "86400 seconds; is 1e+09")));
  request.set_f32(Bytes({1, std::numeric_limits<float>::quiet_NaN()}));
  request.set_time_to_live(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(FieldsOf(HandlePutVector(request, context_).status()),
              ElementsAre("f32[1]", "time_to_live"));
}

TEST_F(VectorsTest, AFullStoreRefusesWithQuotaFailure) {
  v1::PutVectorRequest request;
  request.set_f32(std::string(1 << 20, '\0'));

  const absl::Status status = HandlePutVector(request, context_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const google::rpc::Status rich = ToRpcStatus(status);
  ASSERT_EQ(rich.details_size(), 1);
  google::rpc::QuotaFailure failure;
  ASSERT_TRUE(rich.details(0).UnpackTo(&failure));
  EXPECT_EQ(failure.violations(0).subject(), "max_vector_bytes");
  EXPECT_THAT(failure.violations(0).description(),
              HasSubstr("1049088 bytes do not fit beside the 0"));
}

TEST_F(VectorsTest, AnInterventionTakesItByHash) {
  const auto resolved =
      ResolveGenerate(Adding(Put(Bytes({1, 2, 3, 4}))), context_);

  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(resolved->request.sequence.interventions[0].vector,
              ElementsAre(1, 2, 3, 4));
}

TEST_F(VectorsTest, AProjectionTakesItByHash) {
  v1::GenerateRequest request;
  request.set_text("0123");
  request.mutable_stop()->set_max_tokens(0);
  request.mutable_capture()->mutable_rows()->mutable_prompt()->set_all(true);
  v1::Projection& projection =
      *request.mutable_capture()->add_derived()->mutable_projection();
  projection.mutable_where()->set_hook(v1::HOOK_POINT_RESID_POST);
  projection.add_vectors()->set_sha256(Put(Bytes({1, 2, 3, 4})));

  const auto resolved = ResolveGenerate(request, context_);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_THAT(resolved->request.sequence.capture.derived[0].vectors,
              ElementsAre(ElementsAre(1, 2, 3, 4)));
}

TEST_F(VectorsTest, ANameThatIsNotHereIsNotFound) {
  const std::string name(64, 'a');
  const absl::Status status = ResolveGenerate(Adding(name), context_).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("interventions[0].add.vector.sha256"), HasSubstr(name)));
  google::rpc::ResourceInfo info;
  ASSERT_TRUE(ToRpcStatus(status).details(0).UnpackTo(&info));
  EXPECT_EQ(info.resource_name(), name);
}

TEST_F(VectorsTest, OtherFaultsBesideAMissingNameAreAllNamed) {
  v1::GenerateRequest request = Adding(std::string(64, 'a'));
  request.set_priority(1000);

  const absl::Status status = ResolveGenerate(request, context_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(FieldsOf(status),
              ElementsAre("interventions[0].add.vector.sha256", "priority"));
}

TEST_F(VectorsTest, AWrongWidthAndAWrongNameAreRefused) {
  EXPECT_THAT(
      ViolationsOf(
          ResolveGenerate(Adding(Put(Bytes({1, 2}))), context_).status()),
      ElementsAre(HasSubstr("must name a vector of 4 values, as many as the "
                            "hook is wide; has 2")));
  EXPECT_THAT(ViolationsOf(ResolveGenerate(Adding("x"), context_).status()),
              ElementsAre(HasSubstr("must be 64 lowercase hexadecimal digits; "
                                    "is \"x\"")));
}

TEST_F(VectorsTest, ADeletedOneIsGone) {
  v1::DeleteVectorRequest request;
  request.set_sha256(Put(Bytes({1})));

  EXPECT_TRUE(HandleDeleteVector(request, context_).ok());
  EXPECT_EQ(Get(request.sha256()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(HandleDeleteVector(request, context_).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headrace
