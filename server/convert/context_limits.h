// How far a sequence may go: its rotary encoding, the context that this
// serves, and what it leaves to generate.
#ifndef HEADRACE_SERVER_CONVERT_CONTEXT_LIMITS_H_
#define HEADRACE_SERVER_CONVERT_CONTEXT_LIMITS_H_

#include <optional>

#include "headrace/v1/context_extension.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// Fills sequence.rope, sequence.max_rows, stop.max_tokens and
// limited_by_context of a request whose prompt is resolved (empty when it is
// invalid: then only the extension is checked).
//
//   max_tokens: nullopt generates until an end token or the context is full.
void ResolveContext(const v1::ContextExtension& extension,
                    std::optional<int64_t> max_tokens,
                    const ServingContext& context, Request& request,
                    Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_CONTEXT_LIMITS_H_
