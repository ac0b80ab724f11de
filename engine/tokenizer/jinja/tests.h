// The tests: {{ value is name(…) }}. A new one is a function and a line in the
// table of tests.cc.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_TESTS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_TESTS_H_

#include <string_view>

#include "engine/tokenizer/jinja/callable.h"

namespace headrace {

// nullptr for a name that is no test. The result of a test is a bool.
const JinjaCallableRow* FindTest(std::string_view name);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_TESTS_H_
