#include "server/rpc/generate.h"

#include <utility>
#include <variant>

#include "server/convert/event_messages.h"
#include "server/rpc/stream_reactor.h"

namespace headrace {

namespace {

struct GenerateTraits {
  using Request = v1::GenerateRequest;
  using Response = v1::GenerateResponse;

  static const v1::GenerateRequest& AsGenerate(const Request& request) {
    return request;
  }

  static bool Fill(StreamEvent& event, const v1::Header& header,
                   const Tokenizer* tokenizer, Response& response) {
    if (std::holds_alternative<StartedEvent>(event)) {
      *response.mutable_header() = header;
    } else if (auto* token = std::get_if<TokenEvent>(&event)) {
      *response.mutable_token() = ToProto(std::move(*token), tokenizer);
    } else if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      *response.mutable_prompt_logprobs() = ToProto(*prompt, tokenizer);
    } else if (auto* chunk = std::get_if<ActivationChunk>(&event)) {
      if (chunk->derived >= 0) {
        *response.mutable_derived() =
            DerivedToProto(std::move(*chunk), tokenizer);
      } else {
        *response.mutable_activations() = ToProto(std::move(*chunk));
      }
    } else if (auto* choice = std::get_if<ChoiceEndEvent>(&event)) {
      *response.mutable_choice_end() = ToProto(std::move(*choice));
    } else if (auto* end = std::get_if<EndEvent>(&event)) {
      *response.mutable_end() = ToProto(*end);
    }
    return response.event_case() != Response::EVENT_NOT_SET;
  }
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGenerate(
    RpcContext* rpc, grpc::CallbackServerContext* call,
    const v1::GenerateRequest* request) {
  return StreamReactor<GenerateTraits>::Create(rpc, call, request);
}

}  // namespace headrace
