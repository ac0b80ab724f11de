// v1.ResumeCursor: a stream that goes on where another one broke.
#ifndef HEADRACE_SERVER_CONVERT_RESUME_H_
#define HEADRACE_SERVER_CONVERT_RESUME_H_

#include <string>

#include "headrace/v1/generation.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// SHA-256 of all that the bytes of a request's stream depend on: the prompt's
// ids, sampling with its seed, capture, interventions, rotary encoding,
// weights, numerics, build and instruction set.
std::string ReplayId(const v1::GenerateRequest& proto, const Request& request,
                     const ServingContext& context);

// Fills request.resume from proto.resume(), when the request, resolved but for
// that, is the one whose stream broke. Violations are below "resume".
void ResolveResume(const v1::GenerateRequest& proto,
                   const ServingContext& context, Request& request,
                   Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_RESUME_H_
