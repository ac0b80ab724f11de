// What a capture's stream may be asked for beside its rows: heads, compression,
// means, the prefix cache's rows, and to go on where another one broke.
#include <zstd.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/crc/crc32c.h"
#include "client/cpp/chunk_data.h"
#include "client/cpp/stream_position.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CaptureStreamTest : public ServerFixture {
 protected:
  static std::vector<v1::ActivationChunk> Chunks(const Answer& answer) {
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    std::vector<v1::ActivationChunk> chunks;
    for (const v1::GenerateResponse& event : answer.events) {
      if (event.has_activations()) chunks.push_back(event.activations());
    }
    return chunks;
  }

  // The bytes of all rows, by hook, layer and choice, in the order they came,
  // and the tokens.
  static std::map<std::tuple<int, int, int>, std::string> Bytes(
      const std::vector<v1::GenerateResponse>& events) {
    std::map<std::tuple<int, int, int>, std::string> bytes;
    for (const v1::GenerateResponse& event : events) {
      if (event.has_activations()) {
        const v1::ActivationChunk& chunk = event.activations();
        bytes[{chunk.hook(), chunk.layer(), chunk.choice()}] += chunk.data();
      }
      if (event.has_derived()) {
        bytes[{-1, event.derived().layer(), event.derived().choice()}] +=
            event.derived().values();
      }
      if (event.has_token()) {
        bytes[{-2, 0, event.token().choice()}] += event.token().text();
      }
      if (event.has_prompt_logprobs()) bytes[{-3, 0, 0}] += "p";
    }
    return bytes;
  }

  static v1::GenerateRequest Everything() {
    v1::GenerateRequest request = Text("a prompt of some length", 12);
    CaptureResidPost(request);
    request.mutable_capture()->set_chunk_bytes(4096);
    request.mutable_capture()
        ->add_derived()
        ->mutable_norm()
        ->mutable_where()
        ->set_hook(v1::HOOK_POINT_RESID_PRE);
    request.mutable_logprobs()->set_prompt(true);
    request.mutable_sampling()->set_temperature(1);
    request.mutable_sampling()->set_n(2);
    return request;
  }
};

TEST_F(CaptureStreamTest, HeadsComeOnTheirOwnWithTheirKeys) {
  Start();
  v1::GenerateRequest request = Text("hello", 2);
  v1::CaptureSpec& capture = *request.mutable_capture();
  v1::HookSelector& probs = *capture.add_hooks();
  probs.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  probs.add_layers(-1);
  probs.add_heads(1);
  capture.mutable_rows()->mutable_prompt()->set_last(true);
  capture.set_dtype(v1::WIRE_DTYPE_INT8);

  const Answer answer = Generate(request);
  const v1::ResolvedHook& resolved = answer.events[0].header().hooks(0);
  EXPECT_EQ(resolved.width(), 64u);
  EXPECT_EQ(resolved.heads(0).layer(), 1u);
  EXPECT_THAT(resolved.heads(0).heads(), ElementsAre(1));
  const std::vector<v1::ActivationChunk> chunks = Chunks(answer);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].dtype(), v1::WIRE_DTYPE_F32);
  EXPECT_EQ(chunks[0].head(), 1u);
  EXPECT_EQ(chunks[0].width(), 64u);
  EXPECT_THAT(chunks[0].key_starts(), ElementsAre(0));
  EXPECT_THAT(chunks[0].key_counts(), ElementsAre(5));
  EXPECT_EQ(chunks[0].data().size(), 64 * sizeof(float));
}

TEST_F(CaptureStreamTest, TopKeysComeWithTheirPositions) {
  Start();
  v1::GenerateRequest request = Text("hello", 0);
  v1::CaptureSpec& capture = *request.mutable_capture();
  v1::HookSelector& probs = *capture.add_hooks();
  probs.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  probs.add_heads(0);
  probs.set_top_keys(3);
  capture.mutable_rows()->mutable_prompt()->add_positions(1);

  const std::vector<v1::ActivationChunk> chunks = Chunks(Generate(request));
  ASSERT_EQ(chunks.size(), 2u);  // layers
  EXPECT_EQ(chunks[0].width(), 3u);
  EXPECT_THAT(chunks[0].key_counts(), ElementsAre(2));
  EXPECT_THAT(chunks[0].key_positions(), ElementsAre(0, 1, 0));
}

TEST_F(CaptureStreamTest, HeadsMustBeNamedAndExist) {
  Start();
  v1::GenerateRequest request = Text("hello", 0);
  v1::CaptureSpec& capture = *request.mutable_capture();
  capture.mutable_rows()->mutable_prompt()->set_all(true);
  capture.add_hooks()->set_hook(v1::HOOK_POINT_ATTN_PROBS);
  v1::HookSelector& other = *capture.add_hooks();
  other.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  other.add_heads(2);
  other.set_top_keys(5);
  v1::HookSelector& plain = *capture.add_hooks();
  plain.set_hook(v1::HOOK_POINT_RESID_POST);
  plain.add_heads(0);
  capture.add_derived()->mutable_norm()->mutable_where()->set_hook(
      v1::HOOK_POINT_ATTN_PROBS);

  const std::string message = Generate(request).status.error_message();
  EXPECT_THAT(message,
              HasSubstr("capture.hooks[0].heads must be named, from 0 to 1"));
  EXPECT_THAT(message, HasSubstr("capture.hooks[1].heads[0] must be from 0 to "
                                 "1; is 2"));
  EXPECT_THAT(message, HasSubstr("capture.hooks[1].top_keys must be the same"));
  EXPECT_THAT(message, HasSubstr("capture.hooks[2].heads cannot be set"));
  EXPECT_THAT(message, HasSubstr("HOOK_POINT_ATTN_PROBS can only be captured"));
}

TEST_F(CaptureStreamTest, ChunksAreCompressedWhenThatPays) {
  Start({}, {.hidden_size = 256});
  v1::GenerateRequest request = Text("hello", 0);
  CaptureResidPost(request);
  const std::vector<v1::ActivationChunk> plain = Chunks(Generate(request));
  request.mutable_capture()->set_compression(v1::COMPRESSION_ZSTD);

  const std::vector<v1::ActivationChunk> chunks = Chunks(Generate(request));
  ASSERT_EQ(chunks.size(), plain.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(plain[i].compression(), v1::COMPRESSION_NONE);
    EXPECT_EQ(chunks[i].compression(), v1::COMPRESSION_ZSTD);
    EXPECT_LT(chunks[i].data().size(), plain[i].data().size() * 95 / 100);
    EXPECT_EQ(chunks[i].crc32c(), plain[i].crc32c());
    std::string scratch;
    const auto data = client::ChunkData(chunks[i], scratch);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(*data, plain[i].data());
  }
}

TEST_F(CaptureStreamTest, ADamagedOrGreedyFrameIsDataLoss) {
  v1::ActivationChunk chunk;
  chunk.set_dtype(v1::WIRE_DTYPE_F32);
  chunk.set_row_count(1);
  chunk.set_width(4);
  chunk.add_positions(0);
  chunk.set_compression(v1::COMPRESSION_ZSTD);
  std::string scratch;
  chunk.set_data("no frame");
  EXPECT_EQ(client::ChunkData(chunk, scratch).status().code(),
            absl::StatusCode::kDataLoss);

  const std::string large(1 << 20, 'x');  // where 16 bytes were announced
  std::string frame(ZSTD_compressBound(large.size()), '\0');
  frame.resize(
      ZSTD_compress(frame.data(), frame.size(), large.data(), large.size(), 1));
  chunk.set_data(frame);
  EXPECT_EQ(client::ChunkData(chunk, scratch).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_LE(scratch.size(), 16u);
}

TEST_F(CaptureStreamTest, MeansComeOnceWithTheirCount) {
  Start();
  v1::GenerateRequest request = Text("hello", 3);
  v1::CaptureSpec& capture = *request.mutable_capture();
  capture.mutable_rows()->mutable_prompt()->set_all(true);
  capture.mutable_rows()->mutable_generated()->set_all(true);
  capture.add_derived()->mutable_mean()->mutable_where()->set_hook(
      v1::HOOK_POINT_MLP_OUT);

  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  int means = 0;
  for (const v1::GenerateResponse& event : answer.events) {
    if (!event.has_derived()) continue;
    ++means;
    EXPECT_EQ(event.derived().width(), 8u);
    EXPECT_THAT(event.derived().rows_averaged(), ElementsAre(7));
  }
  EXPECT_EQ(means, 2);
  EXPECT_EQ(answer.events.back().end().rows(0).rows(), 2u);
}

TEST_F(CaptureStreamTest, RowsOfCachedTokensAreComputedOrListed) {
  Start();
  v1::GenerateRequest request = Text(std::string(40, 'x') + "y", 2);
  ASSERT_TRUE(Generate(request).status.ok());
  CaptureResidPost(request);
  Answer answer = Generate(request);
  EXPECT_EQ(answer.events[0].header().cached_rows(), v1::CACHED_ROWS_RECOMPUTE);
  EXPECT_EQ(answer.events.back().end().usage().cached_tokens(), 0u);
  EXPECT_EQ(answer.events.back().end().gaps_size(), 0);

  request.mutable_capture()->set_cached_rows(v1::CACHED_ROWS_LEAVE_OUT);
  request.mutable_capture()->mutable_rows()->add_exclude_positions(0);
  answer = Generate(request);
  EXPECT_EQ(answer.events[0].header().cached_rows(), v1::CACHED_ROWS_LEAVE_OUT);
  const v1::End& end = answer.events.back().end();
  EXPECT_EQ(end.usage().cached_tokens(), 32u);
  ASSERT_EQ(end.gaps_size(), 1);
  EXPECT_TRUE(end.gaps(0).cached());
  EXPECT_EQ(end.gaps(0).first_position(), 1u);
  EXPECT_EQ(end.gaps(0).last_position(), 31u);
  EXPECT_EQ(end.rows(0).rows(), 2u * (41 - 32 + 1));
}

// Whenever the stream breaks, what comes afterwards is what would have come.
TEST_F(CaptureStreamTest, AResumedStreamHasTheSameBytesFromThereOn) {
  Start();
  v1::GenerateRequest request = Everything();
  const Answer whole = Generate(request);
  ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
  request.mutable_sampling()->set_seed(
      whole.events[0].header().sampling().seed());
  const auto expected = Bytes(whole.events);

  for (size_t taken = 0; taken < whole.events.size(); taken += 3) {
    // A stream that is cut off after so many events.
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    client::StreamPosition position;
    std::vector<v1::GenerateResponse> events;
    v1::GenerateResponse event;
    while (events.size() < taken && reader->Read(&event)) {
      position.Add(event);
      events.push_back(event);
    }
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    reader->Finish();

    const Answer rest = Generate(position.Continue(request));
    ASSERT_TRUE(rest.status.ok()) << taken << rest.status.error_message();
    events.insert(events.end(), rest.events.begin(), rest.events.end());
    EXPECT_EQ(Bytes(events), expected) << taken;
  }
}

TEST_F(CaptureStreamTest, OnlyTheSameRequestIsResumed) {
  Start();
  v1::GenerateRequest request = Everything();
  client::StreamPosition position;
  for (const v1::GenerateResponse& event : Generate(request).events) {
    position.Add(event);
  }
  const v1::GenerateRequest resumed = position.Continue(request);
  ASSERT_TRUE(Generate(resumed).status.ok());
  const auto refused = [&](const v1::GenerateRequest& changed) {
    const grpc::Status status = Generate(changed).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };

  v1::GenerateRequest changed = resumed;
  changed.set_text("another prompt");
  EXPECT_THAT(refused(changed), HasSubstr("resume.replay_id must be that of"));
  changed = resumed;
  changed.mutable_sampling()->set_seed(1);
  EXPECT_THAT(refused(changed), HasSubstr("resume.replay_id"));
  changed = resumed;
  changed.mutable_sampling()->clear_seed();
  EXPECT_THAT(refused(changed), HasSubstr("random seed"));
  changed = resumed;
  changed.mutable_stop()->set_time_limit(100);
  EXPECT_THAT(refused(changed), HasSubstr("stop.time_limit"));
  changed = resumed;
  changed.mutable_capture()->set_policy(v1::SLOW_READER_POLICY_DROP_WITH_GAPS);
  EXPECT_THAT(refused(changed), HasSubstr("DROP_WITH_GAPS"));
}

}  // namespace
}  // namespace headrace
