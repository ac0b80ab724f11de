// v1.CaptureSpec to a plan, its delivery and its layout.
#ifndef HEADRACE_SERVER_CONVERT_CAPTURE_H_
#define HEADRACE_SERVER_CONVERT_CAPTURE_H_

#include "absl/status/status.h"
#include "headrace/v1/activations.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// Fills request.sequence.capture and delivery; violations are below "capture".
// Negative positions need request.sequence.prompt, and keeping num_choices,
// resolved.
void ResolveCapture(const v1::CaptureSpec& proto, const ServingContext& context,
                    Request& request, Violations& violations);

// Fills in what depends on the length of the sequence, too: layout, and keeper
// with what it may take of the quota. Errors: RESOURCE_EXHAUSTED (with
// QuotaFailure).
absl::Status LayOutCapture(const v1::CaptureSpec& proto,
                           const ServingContext& context, Request& request);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_CAPTURE_H_
