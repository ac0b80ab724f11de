#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class UnaryTest : public ServerFixture {
 protected:
  grpc::Status Embed(const v1::EmbedRequest& request) {
    grpc::ClientContext context;
    return stub_->Embed(&context, request, &embedding_);
  }

  std::vector<float> Row(size_t index) const {
    std::vector<float> row(embedding_.width());
    std::memcpy(row.data(),
                embedding_.data().data() + index * row.size() * sizeof(float),
                row.size() * sizeof(float));
    return row;
  }

  v1::EmbedResponse embedding_;
};

TEST_F(UnaryTest, TokenizeAndDetokenizeAreInverse) {
  Start();
  grpc::ClientContext tokenize_context;
  v1::TokenizeRequest tokenize;
  tokenize.add_texts("hello");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(stub_->Tokenize(&tokenize_context, tokenize, &tokens).ok());

  grpc::ClientContext context;
  v1::DetokenizeRequest request;
  *request.mutable_ids() = tokens.results(0).ids();
  v1::DetokenizeResponse response;
  ASSERT_TRUE(stub_->Detokenize(&context, request, &response).ok());
  EXPECT_EQ(response.data(), "hello");
}

TEST_F(UnaryTest, ModelsAreUnavailableUntilOneIsServed) {
  Open();
  grpc::ClientContext before;
  v1::ListModelsResponse response;
  EXPECT_EQ(models_->ListModels(&before, {}, &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  Serve();

  grpc::ClientContext after;
  ASSERT_TRUE(models_->ListModels(&after, {}, &response).ok());
  EXPECT_EQ(response.models(0).name(), "fake");
}

TEST_F(UnaryTest, AnUnknownModelHasResourceInfo) {
  Start();
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("other");
  v1::GetModelResponse response;

  const grpc::Status status = models_->GetModel(&context, request, &response);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_THAT(DetailsOf<google::rpc::ResourceInfo>(status), SizeIs(1));
}

TEST_F(UnaryTest, HooksAndEstimatesAnswer) {
  Start();
  grpc::ClientContext hooks_context;
  v1::ListHookPointsResponse hooks;
  ASSERT_TRUE(models_->ListHookPoints(&hooks_context, {}, &hooks).ok());
  EXPECT_THAT(hooks.hooks(), SizeIs(25));

  grpc::ClientContext context;
  v1::EstimateCaptureRequest request;
  *request.mutable_request() = Text("hello", 3);
  CaptureResidPost(*request.mutable_request());
  v1::EstimateCaptureResponse estimate;
  ASSERT_TRUE(models_->EstimateCapture(&context, request, &estimate).ok());
  EXPECT_EQ(estimate.prompt_rows(), 10u);
  EXPECT_EQ(engine_->opened(), 0) << "nothing was run";
}

// The pooled embedding is not the mean of the rows that the same service
// returns (huggingface/text-embeddings-inference#278).
TEST_F(UnaryTest, EmbedIsTheMeanOfTheRows) {
  Start();
  v1::EmbedRequest request;
  request.add_inputs()->set_text("hello");
  request.add_inputs()->set_text("hi");

  ASSERT_TRUE(Embed(request).ok());

  EXPECT_EQ(embedding_.hook(), v1::HOOK_POINT_FINAL_NORM_OUT);
  EXPECT_THAT(embedding_.token_counts(), ElementsAre(5u, 2u));
  for (const int length : {5, 2}) {
    double sum = 0;
    for (int p = 0; p < length; ++p) {
      sum += FakeRowValue(HookPoint::kFinalNormOut, -1, p, 3);
    }
    EXPECT_EQ(Row(length == 5 ? 0 : 1)[3], static_cast<float>(sum / length));
  }
}

TEST_F(UnaryTest, EmbedTakesTheLastRowOfALayer) {
  Start();
  v1::EmbedRequest request;
  request.add_inputs()->set_text("hello");
  request.set_hook(v1::HOOK_POINT_RESID_POST);
  request.set_layer(0);
  request.set_pooling(v1::POOLING_LAST);

  ASSERT_TRUE(Embed(request).ok());

  EXPECT_EQ(Row(0)[2], FakeRowValue(HookPoint::kResidPost, 0, 4, 2));
  EXPECT_EQ(embedding_.layer(), 0u);
}

// The loop may be through with an input before its reader looks for the first
// time: nothing calls the reader again, so submitting has to answer.
TEST_F(UnaryTest, InputsThatAreDoneAtOnceAreAnswered) {
  Start();
  v1::EmbedRequest request;
  for (const char* text : {"a", "b", "c"}) request.add_inputs()->set_text(text);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(Embed(request).ok()) << i;
}

TEST_F(UnaryTest, ANormalizedEmbeddingHasLengthOne) {
  Start();
  v1::EmbedRequest request;
  request.add_inputs()->set_text("hello");
  request.set_normalize(true);

  ASSERT_TRUE(Embed(request).ok());

  double squares = 0;
  for (const float value : Row(0)) squares += value * value;
  // Eight values rounded to float32.
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

TEST_F(UnaryTest, ManyInputsRunThroughASmallQueue) {
  Start({.max_num_seqs = 2, .max_queue = 8});
  v1::EmbedRequest request;
  for (int i = 0; i < 64; ++i) {
    request.add_inputs()->set_text(std::string(1 + i % 7, 'x'));
  }

  ASSERT_TRUE(Embed(request).ok());

  EXPECT_THAT(embedding_.token_counts(), SizeIs(64));
  EXPECT_EQ(Row(63)[0], Row(0)[0]) << "both have one token";
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(UnaryTest, CancellingAnEmbeddingFreesEverything) {
  Start();
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  v1::EmbedRequest request;
  for (int i = 0; i < 20; ++i) request.add_inputs()->set_text("hello");
  grpc::ClientContext context;
  std::thread call([&] {
    EXPECT_EQ(stub_->Embed(&context, request, &embedding_).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(Eventually([this] { return engine_->opened() > 0; }));

  context.TryCancel();
  call.join();
  release.Notify();

  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(UnaryTest, AnEmbeddingFailsWithItsWorstInput) {
  Start();
  v1::EmbedRequest request;
  request.add_inputs()->set_text("hello");
  request.add_inputs()->set_text("");

  const grpc::Status status = Embed(request);

  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("inputs[1]"));
}

TEST_F(UnaryTest, AMethodThatIsNotThereIsRefusedByName) {
  Start();
  for (const std::string method :
       {"/headrace.v1.InferenceService/Dream", "/other.Service/Method", "/x"}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    const grpc::Slice slice("anything");
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    absl::Notification done;

    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                   [&](const grpc::Status& end) {
                     status = end;
                     done.Notify();
                   });
    done.WaitForNotification();

    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr(method));
  }
}

TEST_F(UnaryTest, ForwardGivesLogprobsOfEveryPositionButTheFirst) {
  Start();
  grpc::ClientContext context;
  v1::ForwardRequest request;
  request.set_text("hello");
  request.mutable_logprobs()->set_top_n(2);
  const auto reader = stub_->Forward(&context, request);
  v1::ForwardResponse event;
  std::vector<uint32_t> positions;
  bool first = true;
  while (reader->Read(&event)) {
    EXPECT_EQ(event.has_header(), std::exchange(first, false));
    if (event.has_logprobs()) {
      positions.push_back(event.logprobs().position());
      EXPECT_THAT(event.logprobs().top_logprobs(), SizeIs(2));
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(event.has_end());
  EXPECT_THAT(positions, ElementsAre(1u, 2u, 3u, 4u));
}

}  // namespace
}  // namespace headrace
