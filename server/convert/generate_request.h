// v1.GenerateRequest, ForwardRequest and EstimateCaptureRequest to a Request.
#ifndef HEADRACE_SERVER_CONVERT_GENERATE_REQUEST_H_
#define HEADRACE_SERVER_CONVERT_GENERATE_REQUEST_H_

#include "absl/status/statusor.h"
#include "headrace/v1/generation.pb.h"
#include "headrace/v1/models.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"

namespace headrace {

struct ResolvedGenerate {
  Request request;
  v1::Header header;  // but for request_id
};

// Everything validated, every default filled in. Errors: NOT_FOUND (model);
// INVALID_ARGUMENT with every violation.
absl::StatusOr<ResolvedGenerate> ResolveGenerate(
    const v1::GenerateRequest& proto, const ServingContext& context);

// Generate's request that computes the prompt and samples nothing; its fields
// have the same names.
v1::GenerateRequest AsGenerate(const v1::ForwardRequest& proto);

absl::StatusOr<v1::EstimateCaptureResponse> HandleEstimateCapture(
    const v1::EstimateCaptureRequest& proto, const ServingContext& context);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_GENERATE_REQUEST_H_
