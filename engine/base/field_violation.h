// A reason to reject one field of a request: gathered, so that every bad field
// is named at once.
#ifndef HEADRACE_ENGINE_BASE_FIELD_VIOLATION_H_
#define HEADRACE_ENGINE_BASE_FIELD_VIOLATION_H_

#include <string>

namespace headrace {

// `field` is relative to the checked message ("top_p",
// "logit_bias[3].token_id"). `description` continues it and holds the value and
// the range: "must be in (0, 1]; is 1.5".
struct FieldViolation {
  std::string field;
  std::string description;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_FIELD_VIOLATION_H_
