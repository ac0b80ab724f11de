// What holds for every scaling method: defaults are filled in, each field is
// in its range, dimensions fit. Rejects where transformers only warns.
#ifndef HEADRACE_ENGINE_ROPE_ROPE_VALIDATION_H_
#define HEADRACE_ENGINE_ROPE_ROPE_VALIDATION_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/field_violation.h"
#include "engine/rope/rope_params.h"

namespace headrace {

// `params` with the fields that its method does not use taken away, and those
// that have a default filled in.
RopeParams CompleteRopeParams(const RopeParams& params);

// Every violation of `params`, under RopeParams' names.
std::vector<FieldViolation> ValidateRopeParams(const RopeParams& params);

// INVALID_ARGUMENT with all of `violations`, each field renamed by `rename`
// ("factor" to "rope_scaling.factor"); OK without violations.
absl::Status RopeViolationsToStatus(
    std::span<const FieldViolation> violations,
    const std::function<std::string(std::string_view)>& rename);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_ROPE_VALIDATION_H_
