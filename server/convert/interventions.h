// v1.Intervention: hooks, rows and vectors, checked against a model.
#ifndef HEADRACE_SERVER_CONVERT_INTERVENTIONS_H_
#define HEADRACE_SERVER_CONVERT_INTERVENTIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/capture/intervention.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "headrace/v1/interventions.pb.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// Violations are below "interventions". Positions may refer to the prompt.
std::vector<Intervention> ResolveInterventions(
    const google::protobuf::RepeatedPtrField<v1::Intervention>& protos,
    std::span<const int32_t> prompt, const ServingContext& context,
    Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_INTERVENTIONS_H_
