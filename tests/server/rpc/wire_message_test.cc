#include "server/rpc/wire_message.h"

#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "headrace/v1/generation.pb.h"

namespace headrace {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

v1::ActivationChunk Chunk(size_t bytes) {
  v1::ActivationChunk chunk;
  chunk.set_hook(v1::HOOK_POINT_RESID_POST);
  chunk.set_layer(0);
  chunk.set_row_count(3);
  chunk.add_positions(7);
  chunk.set_crc32c(0xDEADBEEF);
  chunk.set_max_abs_error(0.5);
  chunk.set_data(std::string(bytes, '\x80'));
  return chunk;
}

TEST(WireMessageTest, ReadsAsTheMessageThatItWas) {
  // Lengths of one, two, three and four bytes.
  for (const size_t bytes : {0, 1, 100, 300, 20'000, 3'000'000}) {
    v1::ForwardResponse response, read;
    *response.mutable_activations() = Chunk(bytes);
    v1::ForwardResponse spent = response;
    ASSERT_TRUE(read.ParseFromString(BytesOf(ToWire(spent)))) << bytes;
    EXPECT_EQ(read.SerializeAsString(), response.SerializeAsString()) << bytes;
  }
}

TEST(WireMessageTest, OtherEventsAreProtobufs) {
  v1::GenerateResponse response, read;
  response.mutable_token()->set_text("four");
  v1::GenerateResponse spent = response;
  ASSERT_TRUE(read.ParseFromString(BytesOf(ToWire(spent))));
  EXPECT_EQ(read.SerializeAsString(), response.SerializeAsString());
}

TEST(WireMessageTest, RowsAreNotCopied) {
  v1::GenerateResponse response;
  *response.mutable_activations() = Chunk(1 << 20);
  const void* const rows = response.activations().data().data();
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(ToWire(response).Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].begin(), rows);
}

}  // namespace
}  // namespace headrace
