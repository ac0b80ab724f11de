// v1.CaptureSpec to a plan, its delivery and its layout.
#ifndef HEADRACE_SERVER_CONVERT_CAPTURE_H_
#define HEADRACE_SERVER_CONVERT_CAPTURE_H_

#include "headrace/v1/activations.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// Fills request.sequence.capture, delivery and layout; violations are below
// "capture". Negative positions need request.sequence.prompt, resolved.
void ResolveCapture(const v1::CaptureSpec& proto, const ServingContext& context,
                    Request& request, Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_CAPTURE_H_
