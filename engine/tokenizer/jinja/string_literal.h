// The escapes of a string in a template: those of Python.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_STRING_LITERAL_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headrace {

// `body`: what stands between the quotes. Unknown escapes stay as they are.
// Errors: INVALID_ARGUMENT for escapes that are cut short, name a character
// (\N{…}) or half of a surrogate pair.
absl::StatusOr<std::string> ParseStringLiteral(std::string_view body);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_STRING_LITERAL_H_
