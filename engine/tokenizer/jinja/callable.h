// What functions, filters, tests and methods have in common: a table row with
// a name, its parameters and a function that gets them bound.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_CALLABLE_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_CALLABLE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// What one rendering shares with the functions it calls.
struct JinjaRuntime {
  JinjaBudget budget;
  absl::CivilSecond local_time;  // what strftime_now() shows
  // Set by raise_exception(): the error's words are the template's own.
  bool refused = false;
  // Owns the namespaces; a deque because values point to them.
  std::deque<JinjaNamespace> namespaces;
};

struct JinjaArguments {
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> named;
};

// One call with its arguments bound to the row's parameters.
struct JinjaCall {
  JinjaRuntime& runtime;
  const JinjaCallableRow& row;
  // The filtered or tested value, or the method's object; None for functions.
  const JinjaValue& self;
  std::vector<std::optional<JinjaValue>> bound;  // one per parameter
  JinjaArguments rest;                           // of "*" and "**"

  // The argument, or nullptr when it was not given.
  const JinjaValue* Argument(size_t index) const;
  // The same, but None counts as not given.
  const JinjaValue* ArgumentOrNone(size_t index) const;
  // With these, a value of the wrong type is an error that names it.
  absl::StatusOr<int64_t> Integer(size_t index, int64_t otherwise) const;
  absl::StatusOr<MarkedText> Text(size_t index, MarkedText otherwise) const;
  // Any value: by its truth.
  bool Truth(size_t index, bool otherwise) const;
};

using JinjaFunction = absl::StatusOr<JinjaValue> (*)(JinjaCall& call);

struct JinjaCallableRow {
  std::string_view name;
  // Separated by spaces, in order. "name?" may be left out; "*" takes further
  // positional arguments and "**" further named ones.
  std::string_view parameters;
  // nullptr: Python has it, but templates may not use it here.
  JinjaFunction function;
};

// The row of this name, or nullptr.
const JinjaCallableRow* FindRow(std::span<const JinjaCallableRow> rows,
                                std::string_view name);

// Binds the arguments, calls, and charges for texts that are read and values
// that are made.
// Errors: INVALID_ARGUMENT for arguments that are missing, unknown or given
// twice, and whatever the function refuses.
absl::StatusOr<JinjaValue> CallRow(JinjaRuntime& runtime,
                                   const JinjaCallableRow& row,
                                   const JinjaValue& self,
                                   JinjaArguments arguments);

// The same for tests, which look at little and make nothing.
absl::StatusOr<JinjaValue> CallTest(JinjaRuntime& runtime,
                                    const JinjaCallableRow& row,
                                    const JinjaValue& self,
                                    JinjaArguments arguments);

// "unsupported type for upper(): int" and the like.
absl::Status JinjaTypeError(std::string_view what, const JinjaValue& value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_CALLABLE_H_
