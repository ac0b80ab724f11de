// The methods that values have in a template: those of Python's types that
// change nothing.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_METHODS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_METHODS_H_

#include <span>
#include <string_view>

#include "engine/tokenizer/jinja/callable.h"

namespace headrace {

// The row of object.name(…), or nullptr. Its function is nullptr when Python
// has the method and templates may not use it.
const JinjaCallableRow* FindMethod(const JinjaValue& object,
                                   std::string_view name);

// Whether any type has a usable method of this name.
bool IsMethodName(std::string_view name);

// The tables, one line per method.
std::span<const JinjaCallableRow> StringMethods();
std::span<const JinjaCallableRow> DictMethods();
std::span<const JinjaCallableRow> ListMethods();
std::span<const JinjaCallableRow> LoopMethods();

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_METHODS_H_
