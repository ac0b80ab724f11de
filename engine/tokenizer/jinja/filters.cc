#include "engine/tokenizer/jinja/filters.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/text_operations.h"

namespace headrace {

const JinjaCallableRow* FindFilter(std::string_view name) {
  for (const auto rows : {TextFilters(), NumberFilters(), SequenceFilters(),
                          SelectionFilters(), OrderFilters()}) {
    if (const JinjaCallableRow* row = FindRow(rows, name)) return row;
  }
  return nullptr;
}

absl::StatusOr<std::vector<JinjaValue>> ToAttributePath(
    const JinjaValue* attribute) {
  std::vector<JinjaValue> path;
  if (attribute == nullptr || attribute->is_none()) return path;
  if (attribute->is_integer()) return std::vector<JinjaValue>{*attribute};
  if (!attribute->is_string()) {
    return JinjaTypeError("an attribute is a string or an integer", *attribute);
  }
  for (std::string_view part : SplitAt(attribute->text().bytes(), '.')) {
    int64_t index = 0;
    const bool is_index =
        std::all_of(part.begin(), part.end(), absl::ascii_isdigit) &&
        absl::SimpleAtoi(std::string(part), &index);
    path.push_back(is_index ? JinjaValue::Integer(index)
                            : JinjaValue::Text(std::string(part)));
  }
  return path;
}

absl::StatusOr<JinjaValue> FollowPath(JinjaBudget& budget,
                                      const std::vector<JinjaValue>& path,
                                      JinjaValue item,
                                      const JinjaValue* otherwise) {
  RETURN_IF_ERROR(budget.Charge(1));
  for (const JinjaValue& part : path) {
    ASSIGN_OR_RETURN(item, GetItem(budget, item, part));
    if (otherwise != nullptr && item.is_undefined()) item = *otherwise;
  }
  return item;
}

JinjaValue IgnoreCase(const JinjaValue& value) {
  if (!value.is_string()) return value;
  return JinjaValue::Text(ChangeCase(value.text(), CaseChange::kLower));
}

}  // namespace headrace
