#include "server/rpc/forward.h"

#include <utility>
#include <variant>

#include "server/convert/event_messages.h"
#include "server/rpc/stream_reactor.h"

namespace headrace {

namespace {

struct ForwardTraits {
  using Request = v1::ForwardRequest;
  using Response = v1::ForwardResponse;

  static v1::GenerateRequest AsGenerate(const Request& request) {
    return headrace::AsGenerate(request);
  }

  static bool Fill(StreamEvent& event, const v1::Header& header,
                   const Tokenizer* tokenizer, Response& response) {
    if (std::holds_alternative<StartedEvent>(event)) {
      *response.mutable_header() = header;
      response.mutable_header()->clear_sampling();
    } else if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      *response.mutable_logprobs() = ToProto(*prompt, tokenizer);
    } else if (auto* chunk = std::get_if<ActivationChunk>(&event)) {
      if (chunk->derived >= 0) {
        *response.mutable_derived() =
            DerivedToProto(std::move(*chunk), tokenizer);
      } else {
        *response.mutable_activations() = ToProto(std::move(*chunk));
      }
    } else if (auto* end = std::get_if<EndEvent>(&event)) {
      *response.mutable_end() = ToProto(*end);
    }
    return response.event_case() != Response::EVENT_NOT_SET;
  }
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartForward(
    RpcContext* rpc, grpc::CallbackServerContext* call,
    const v1::ForwardRequest* request) {
  return StreamReactor<ForwardTraits>::Create(rpc, call, request);
}

}  // namespace headrace
