// JSON into template values and back: what transformers' tojson filter
// writes, which is Python's json.dumps().
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_JSON_TEXT_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_JSON_TEXT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"
#include "nlohmann/json.hpp"

namespace headrace {

struct JsonStyle {
  bool ensure_ascii = false;
  // What one level is indented by; one line without it.
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Errors: INVALID_ARGUMENT naming the type that has no JSON; texts that are
// too large.
absl::StatusOr<std::string> ToJson(const JinjaBudget& budget,
                                   const JinjaValue& value,
                                   const JsonStyle& style);

// Marked as input, everything in it too. Errors: INVALID_ARGUMENT for nesting
// beyond the limit and integers beyond 64 bits.
absl::StatusOr<JinjaValue> FromJson(const JinjaLimits& limits,
                                    const nlohmann::ordered_json& json);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_JSON_TEXT_H_
