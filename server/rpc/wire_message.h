// Messages of a stream as they go to the transport.
#ifndef HEADRACE_SERVER_RPC_WIRE_MESSAGE_H_
#define HEADRACE_SERVER_RPC_WIRE_MESSAGE_H_

#include <utility>

#include "absl/log/check.h"
#include "google/protobuf/message.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "headrace/v1/activations.pb.h"

namespace headrace {

// A message whose field `field` is `chunk`. The chunk's data is taken, not
// copied, and comes last in it: Protobuf would copy every row.
grpc::ByteBuffer ToWire(int field, v1::ActivationChunk chunk);

// Any event. `response` is spent.
template <typename Response>
grpc::ByteBuffer ToWire(Response& response) {
  if (response.has_activations()) {
    return ToWire(Response::kActivationsFieldNumber,
                  std::move(*response.mutable_activations()));
  }
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  CHECK(grpc::SerializationTraits<Response>::Serialize(response, &buffer,
                                                       &own_buffer)
            .ok());
  return buffer;
}

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_WIRE_MESSAGE_H_
