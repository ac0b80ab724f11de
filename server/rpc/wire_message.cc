#include "server/rpc/wire_message.h"

#include <cstdint>
#include <string>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"

namespace headrace {

namespace {

using google::protobuf::internal::WireFormatLite;

// Tag and length of a field that `size` bytes follow.
std::string FieldHead(int field, size_t size) {
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteTag(WireFormatLite::MakeTag(
      field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  coded.WriteVarint32(static_cast<uint32_t>(size));
  coded.Trim();
  return head;
}

void DeleteString(void* string) { delete static_cast<std::string*>(string); }

}  // namespace

grpc::ByteBuffer ToWire(int field, v1::ActivationChunk chunk) {
  // The slice deletes it.
  auto* const data = new std::string(std::move(*chunk.mutable_data()));
  chunk.clear_data();
  const std::string labels =
      chunk.SerializeAsString() +
      FieldHead(v1::ActivationChunk::kDataFieldNumber, data->size());
  grpc::Slice slices[] = {
      grpc::Slice(FieldHead(field, labels.size() + data->size()) + labels),
      grpc::Slice(data->data(), data->size(), DeleteString, data)};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace headrace
