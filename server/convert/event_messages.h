// The batch loop's events to the messages of a stream.
#ifndef HEADRACE_SERVER_CONVERT_EVENT_MESSAGES_H_
#define HEADRACE_SERVER_CONVERT_EVENT_MESSAGES_H_

#include "engine/tokenizer/tokenizer.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/events.h"

namespace headrace {

// Takes what is large out of `event`. `tokenizer` may be null: pieces are
// empty then.
v1::Token ToProto(TokenEvent event, const Tokenizer* tokenizer);
v1::PromptLogprobs ToProto(const PromptLogprobsEvent& event,
                           const Tokenizer* tokenizer);
// Into `activations` or `derived` of a reply, as the chunk is.
v1::ActivationChunk ToProto(ActivationChunk chunk);
v1::Derived DerivedToProto(ActivationChunk chunk, const Tokenizer* tokenizer);
v1::ChoiceEnd ToProto(ChoiceEndEvent event);
v1::End ToProto(const EndEvent& event);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_EVENT_MESSAGES_H_
