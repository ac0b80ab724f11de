// The filters: {{ value | name(…) }}. Each file below has a table; a new
// filter is a function and a line in one of them.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_FILTERS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_FILTERS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/callable.h"

namespace headrace {

// nullptr for a name that is no filter.
const JinjaCallableRow* FindFilter(std::string_view name);

std::span<const JinjaCallableRow> TextFilters();       // text_filters.cc
std::span<const JinjaCallableRow> NumberFilters();     // number_filters.cc
std::span<const JinjaCallableRow> SequenceFilters();   // sequence_filters.cc
std::span<const JinjaCallableRow> SelectionFilters();  // selection_filters.cc
std::span<const JinjaCallableRow> OrderFilters();      // order_filters.cc

// A filter's argument `attribute`: 'a.b.0' looks up one after the other. Empty
// for None: the item itself.
// Errors: INVALID_ARGUMENT when it is neither a string nor an integer.
absl::StatusOr<std::vector<JinjaValue>> ToAttributePath(
    const JinjaValue* attribute);
// Follows the path from `item`. `otherwise` replaces what is undefined on the
// way, unless it is nullptr.
absl::StatusOr<JinjaValue> FollowPath(JinjaBudget& budget,
                                      const std::vector<JinjaValue>& path,
                                      JinjaValue item,
                                      const JinjaValue* otherwise);

// A string in lower case; anything else as it is.
JinjaValue IgnoreCase(const JinjaValue& value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_FILTERS_H_
