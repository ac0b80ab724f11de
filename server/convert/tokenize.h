// Tokenize, Detokenize and ApplyChatTemplate: exactly what Generate would do.
#ifndef HEADRACE_SERVER_CONVERT_TOKENIZE_H_
#define HEADRACE_SERVER_CONVERT_TOKENIZE_H_

#include "absl/status/statusor.h"
#include "headrace/v1/generation.pb.h"
#include "server/convert/serving_context.h"

namespace headrace {

// Errors of all three: NOT_FOUND (model); INVALID_ARGUMENT with every
// violation; RESOURCE_EXHAUSTED for a reply that is too large.
absl::StatusOr<v1::TokenizeResponse> HandleTokenize(
    const v1::TokenizeRequest& proto, const ServingContext& context);
absl::StatusOr<v1::DetokenizeResponse> HandleDetokenize(
    const v1::DetokenizeRequest& proto, const ServingContext& context);
absl::StatusOr<v1::ApplyChatTemplateResponse> HandleApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& proto, const ServingContext& context);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_TOKENIZE_H_
