// Parses a template. Everything a template may use is known here, so that
// what is missing is an error when a model is loaded, not in the middle of a
// conversation.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/syntax_tree.h"

namespace headrace {

// Errors: INVALID_ARGUMENT naming the line, for what is no template and for
// tags, filters, tests, functions and methods that are not supported.
// Source: jinja2 3.1.6, parser.py.
absl::StatusOr<SyntaxTree> ParseTemplate(std::string_view source);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_H_
