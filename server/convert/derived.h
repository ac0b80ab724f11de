// v1.DerivedSpec: quantities of captured rows, checked against a model.
#ifndef HEADRACE_SERVER_CONVERT_DERIVED_H_
#define HEADRACE_SERVER_CONVERT_DERIVED_H_

#include <string>
#include <vector>

#include "engine/capture/derived_spec.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "headrace/v1/derived.pb.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

std::vector<DerivedSpec> ResolveDerived(
    const google::protobuf::RepeatedPtrField<v1::DerivedSpec>& protos,
    const std::string& field, const ServingContext& context,
    Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_DERIVED_H_
