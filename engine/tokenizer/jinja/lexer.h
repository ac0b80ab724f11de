// Cuts a template into tokens, with the white space rules of jinja2 under
// trim_blocks and lstrip_blocks.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_LEXER_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

enum class JinjaTokenKind : uint8_t {
  kData,           // text outside of tags
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct JinjaToken {
  JinjaTokenKind kind;
  std::string text;  // a string's text has its escapes resolved
  int line;          // from 1
};

// The last token is kEnd.
// Errors: INVALID_ARGUMENT naming the line, for tags, comments and strings
// without end and characters that no expression has.
// Source: jinja2 3.1.6, lexer.py.
absl::StatusOr<std::vector<JinjaToken>> TokenizeTemplate(
    std::string_view source);

// INVALID_ARGUMENT: "line 7: …".
absl::Status JinjaSyntaxError(int line, std::string_view message);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_LEXER_H_
