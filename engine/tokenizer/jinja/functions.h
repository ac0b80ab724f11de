// The global functions. A new one is a function and a line in the table of
// functions.cc.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_FUNCTIONS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_FUNCTIONS_H_

#include <string_view>

#include "engine/tokenizer/jinja/callable.h"

namespace headrace {

// nullptr for a name that is no global function.
const JinjaCallableRow* FindFunction(std::string_view name);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_FUNCTIONS_H_
