// How templates reach into values: a.b, a['b'], a[1:], iteration, length.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_LOOKUP_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_LOOKUP_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// `object.name`: a method or attribute first, then an item.
// Undefined when there is neither. Errors: INVALID_ARGUMENT for an undefined
// object (saying which), for names that begin with an underscore and are no
// item, and for methods that would change the object.
absl::StatusOr<JinjaValue> GetAttribute(JinjaBudget& budget,
                                        const JinjaValue& object,
                                        std::string_view name);

// `object.name` without the items: the filter `attr`.
absl::StatusOr<JinjaValue> GetAttributeOnly(JinjaBudget& budget,
                                            const JinjaValue& object,
                                            std::string_view name);

// `object[key]`: an item first, then a method or attribute.
absl::StatusOr<JinjaValue> GetItem(JinjaBudget& budget,
                                   const JinjaValue& object,
                                   const JinjaValue& key);

// `object[start:stop:step]`; None stands for what is left out.
struct SliceBounds {
  JinjaValue start;
  JinjaValue stop;
  JinjaValue step;
};
absl::StatusOr<JinjaValue> GetSlice(JinjaBudget& budget,
                                    const JinjaValue& object,
                                    const SliceBounds& bounds);

// The items that iteration gives: characters of a string, keys of a dict,
// nothing of an undefined value. A generator is used up.
// Errors: INVALID_ARGUMENT for what cannot be iterated.
absl::StatusOr<std::vector<JinjaValue>> ItemsOf(JinjaBudget& budget,
                                                const JinjaValue& value);
bool IsIterable(const JinjaValue& value);

// Python's len(); nullopt for what has none.
std::optional<int64_t> LengthOf(const JinjaValue& value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_LOOKUP_H_
