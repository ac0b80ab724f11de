#include "engine/rope/rope_validation.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/rope/rope_fields.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

void CheckDimensions(const RopeParams& params,
                     std::vector<FieldViolation>& violations) {
  if (!std::isfinite(params.rope_theta) || params.rope_theta <= 1) {
    violations.push_back(
        {"rope_theta",
         absl::StrCat("must be finite and above 1; is ", params.rope_theta)});
  }
  if (params.head_dim < 2) {
    violations.push_back(
        {"head_dim", absl::StrCat("must be at least 2; is ", params.head_dim)});
  }
  if (params.rotary_dim < 2 || params.rotary_dim > params.head_dim ||
      params.rotary_dim % 2 != 0) {
    violations.push_back(
        {"rotary_dim",
         absl::StrCat("must be even, at least 2 and at most head_dim (",
                      params.head_dim, "); is ", params.rotary_dim)});
  }
  if (params.max_position_embeddings < 1 ||
      params.max_position_embeddings > kMaxRopePositions) {
    violations.push_back(
        {"max_position_embeddings",
         absl::StrCat("must be from 1 to ", kMaxRopePositions, "; is ",
                      params.max_position_embeddings)});
  }
}

// One divisor per pair; an absent list is not for this function to miss.
void CheckListLength(const char* name, const std::vector<double>& list,
                     const RopeParams& params,
                     std::vector<FieldViolation>& violations) {
  const int64_t num_pairs = params.rotary_dim / 2;
  if (list.empty() || static_cast<int64_t>(list.size()) == num_pairs) return;
  violations.push_back(
      {name, absl::StrCat("must have rotary_dim / 2 = ", num_pairs,
                          " values; has ", list.size())});
}

void CheckStoredDivisors(const RopeParams& params,
                         std::vector<FieldViolation>& violations) {
  CheckListLength("stored_divisors", params.stored_divisors, params,
                  violations);
  for (size_t i = 0; i < params.stored_divisors.size(); ++i) {
    const double divisor = params.stored_divisors[i];
    if (std::isfinite(divisor) && divisor > 0) continue;
    violations.push_back(
        {absl::StrCat("stored_divisors[", i, "]"),
         absl::StrCat("must be finite and above 0; is ", divisor)});
  }
}

}  // namespace

RopeParams CompleteRopeParams(const RopeParams& params) {
  const ScalingMethod& method = FindScalingMethod(params.type);
  RopeParams complete = params;
  for (const RopeField& field : RopeFields()) {
    if (!UsesField(method, field.id)) Unset(field, complete);
  }
  method.fill_defaults(complete);
  return complete;
}

std::vector<FieldViolation> ValidateRopeParams(const RopeParams& params) {
  const ScalingMethod& method = FindScalingMethod(params.type);
  const RopeParams complete = CompleteRopeParams(params);
  std::vector<FieldViolation> violations;
  CheckDimensions(complete, violations);
  for (RopeFieldId id : method.required_fields) {
    const RopeField& field = FindRopeField(id);
    if (IsSet(field, complete)) continue;
    violations.push_back({field.name, absl::StrCat("is missing: ", method.name,
                                                   " scaling needs it")});
  }
  for (const RopeField& field : RopeFields()) {
    CheckRange(field, complete, violations);
    if (const auto* list =
            std::get_if<std::vector<double> RopeParams::*>(&field.member)) {
      CheckListLength(field.name, complete.*(*list), complete, violations);
    }
  }
  CheckStoredDivisors(complete, violations);
  method.validate(complete, violations);
  return violations;
}

absl::Status RopeViolationsToStatus(
    std::span<const FieldViolation> violations,
    const std::function<std::string(std::string_view)>& rename) {
  if (violations.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(
      violations, "; ", [&](std::string* out, const FieldViolation& violation) {
        absl::StrAppend(out, rename(violation.field), " ",
                        violation.description);
      }));
}

}  // namespace headrace
