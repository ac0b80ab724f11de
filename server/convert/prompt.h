// Text, token ids and chats to the ids that run.
#ifndef HEADRACE_SERVER_CONVERT_PROMPT_H_
#define HEADRACE_SERVER_CONVERT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "headrace/v1/generation.pb.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// The ids of `text`; a violation of `field` when the model has no tokenizer.
std::vector<int32_t> EncodeText(std::string_view text,
                                const EncodeOptions& options,
                                const std::string& field,
                                const ServingContext& context,
                                Violations& violations);

// The ids as they are; a violation of `field`.ids[i] for each that the model
// lacks.
std::vector<int32_t> CheckTokenIds(const v1::TokenIds& tokens,
                                   const std::string& field,
                                   const ServingContext& context,
                                   Violations& violations);

// Nullopt after a violation below "chat".
std::optional<RenderedChat> RenderChat(const v1::Chat& chat,
                                       const ServingContext& context,
                                       Violations& violations);

// Encodes a rendered chat as a whole; its template wrote its own BOS.
std::vector<int32_t> EncodeChat(const RenderedChat& chat,
                                const ServingContext& context);

// The prompt of a request. Empty after a violation; an empty prompt is one.
std::vector<int32_t> ResolvePrompt(const v1::GenerateRequest& request,
                                   const ServingContext& context,
                                   Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_PROMPT_H_
