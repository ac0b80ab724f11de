// v1.SamplingParams, StopConditions and LogprobsOptions ↔ the engine's.
#ifndef HEADRACE_SERVER_CONVERT_SAMPLING_H_
#define HEADRACE_SERVER_CONVERT_SAMPLING_H_

#include <cstdint>

#include "engine/batch.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// Fills sampling, num_choices; an unset seed is drawn.
void ResolveSampling(const v1::SamplingParams& proto,
                     const ServingContext& context, Request& request,
                     Violations& violations);

// Fills end tokens, min_tokens and the rules; not max_tokens, which depends on
// the context.
void ResolveStop(const v1::StopConditions& proto, const ServingContext& context,
                 Request& request, Violations& violations);

LogprobsOptions ResolveLogprobs(const v1::LogprobsOptions& proto,
                                const ServingContext& context,
                                Violations& violations);

// Every field set.
v1::SamplingParams ToProto(const SamplingParams& params, int32_t num_choices);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_SAMPLING_H_
