// str() and repr() of template values, as Python prints them.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_PRINTING_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_PRINTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// What {{ value }} writes. Strings keep their marks; the text of a number or
// container is the template's or the request's as a whole.
// Errors: INVALID_ARGUMENT for values that have no text worth writing
// (functions, generators, loops), and for texts that are too large.
absl::StatusOr<MarkedText> ToText(const JinjaBudget& budget,
                                  const JinjaValue& value);

// What the value looks like inside a printed list.
absl::StatusOr<std::string> Repr(const JinjaBudget& budget,
                                 const JinjaValue& value);

// The shortest text that reads back as `value`: 1.0, 1e+16, nan.
std::string FormatFloat(double value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_PRINTING_H_
