// ModelService's answers: what the engine says of its model and its hooks.
#ifndef HEADRACE_SERVER_CONVERT_MODELS_H_
#define HEADRACE_SERVER_CONVERT_MODELS_H_

#include "absl/status/statusor.h"
#include "headrace/v1/models.pb.h"
#include "server/convert/serving_context.h"

namespace headrace {

absl::StatusOr<v1::ListModelsResponse> HandleListModels(
    const v1::ListModelsRequest& proto, const ServingContext& context);
absl::StatusOr<v1::GetModelResponse> HandleGetModel(
    const v1::GetModelRequest& proto, const ServingContext& context);
absl::StatusOr<v1::ListHookPointsResponse> HandleListHookPoints(
    const v1::ListHookPointsRequest& proto, const ServingContext& context);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_MODELS_H_
