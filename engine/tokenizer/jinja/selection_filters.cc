// Filters that apply a filter or a test to every item.
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/tests.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

// Nothing to do for a value that is false, iterable or not.
absl::StatusOr<std::vector<JinjaValue>> ItemsIfAny(JinjaCall& call) {
  if (!IsTruthy(call.self)) return std::vector<JinjaValue>();
  return ItemsOf(call.runtime.budget, call.self);
}

// A name of a filter or test, as an argument.
absl::StatusOr<std::string> NameArgument(const JinjaValue& name) {
  if (name.is_string()) return name.text().bytes();
  return JinjaTypeError("the name of a filter or test is a string", name);
}

JinjaArguments WithoutFirst(const JinjaArguments& arguments, size_t count) {
  JinjaArguments rest;
  rest.positional.assign(
      arguments.positional.begin() + static_cast<int64_t>(count),
      arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

const JinjaValue* FindNamed(const JinjaArguments& arguments,
                            std::string_view name) {
  for (const auto& [candidate, value] : arguments.named) {
    if (candidate == name) return &value;
  }
  return nullptr;
}

// map(attribute=…, default=…)
Result MapAttribute(JinjaCall& call, const JinjaValue& attribute) {
  for (const auto& [name, value] : call.rest.named) {
    if (name != "attribute" && name != "default") {
      return absl::InvalidArgumentError(
          Concat("map() has no argument named '", name, "'"));
    }
  }
  const JinjaValue* otherwise = FindNamed(call.rest, "default");
  if (otherwise != nullptr && otherwise->is_none()) otherwise = nullptr;
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> path,
                   ToAttributePath(&attribute));
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items, ItemsIfAny(call));
  for (JinjaValue& item : items) {
    ASSIGN_OR_RETURN(item, FollowPath(call.runtime.budget, path,
                                      std::move(item), otherwise));
  }
  return JinjaValue::Generator(std::move(items));
}

Result Map(JinjaCall& call) {
  if (call.rest.positional.empty()) {
    const JinjaValue* attribute = FindNamed(call.rest, "attribute");
    if (attribute != nullptr) return MapAttribute(call, *attribute);
    return absl::InvalidArgumentError("map() needs a filter or an attribute");
  }
  ASSIGN_OR_RETURN(const std::string name,
                   NameArgument(call.rest.positional.front()));
  const JinjaCallableRow* filter = FindFilter(name);
  if (filter == nullptr) {
    return absl::InvalidArgumentError(
        Concat("the filter '", name, "' is unknown"));
  }
  const JinjaArguments arguments = WithoutFirst(call.rest, 1);
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items, ItemsIfAny(call));
  for (JinjaValue& item : items) {
    ASSIGN_OR_RETURN(item, CallRow(call.runtime, *filter, item, arguments));
  }
  return JinjaValue::Generator(std::move(items));
}

// What the four filters below do with an item.
struct Selection {
  std::vector<JinjaValue> path;  // from the item to what is tested
  const JinjaCallableRow* test;  // nullptr: the truth of the value
  JinjaArguments arguments;
};

absl::StatusOr<Selection> ReadSelection(const JinjaCall& call,
                                        bool by_attribute) {
  const std::vector<JinjaValue>& positional = call.rest.positional;
  Selection selection = {{}, nullptr, {}};
  size_t used = 0;
  if (by_attribute) {
    if (positional.empty()) {
      return absl::InvalidArgumentError(
          Concat(call.row.name, "() needs an attribute"));
    }
    ASSIGN_OR_RETURN(selection.path, ToAttributePath(&positional[used++]));
  }
  if (used == positional.size()) return selection;
  ASSIGN_OR_RETURN(const std::string name, NameArgument(positional[used++]));
  selection.test = FindTest(name);
  if (selection.test == nullptr) {
    return absl::InvalidArgumentError(
        Concat("the test '", name, "' is unknown"));
  }
  selection.arguments = WithoutFirst(call.rest, used);
  return selection;
}

template <bool kByAttribute, bool kKeeps>
Result Select(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, ItemsIfAny(call));
  std::vector<JinjaValue> kept;
  if (items.empty()) return JinjaValue::Generator(std::move(kept));
  ASSIGN_OR_RETURN(const Selection selection,
                   ReadSelection(call, kByAttribute));
  for (const JinjaValue& item : items) {
    ASSIGN_OR_RETURN(
        JinjaValue value,
        FollowPath(call.runtime.budget, selection.path, item, nullptr));
    if (selection.test != nullptr) {
      ASSIGN_OR_RETURN(value, CallTest(call.runtime, *selection.test, value,
                                       selection.arguments));
    }
    if (IsTruthy(value) == kKeeps) kept.push_back(item);
  }
  return JinjaValue::Generator(std::move(kept));
}

constexpr auto kSelectionFilters = std::to_array<JinjaCallableRow>({
    {"map", "* **", Map},
    {"reject", "* **", Select</*kByAttribute=*/false, /*kKeeps=*/false>},
    {"rejectattr", "* **", Select</*kByAttribute=*/true, /*kKeeps=*/false>},
    {"select", "* **", Select</*kByAttribute=*/false, /*kKeeps=*/true>},
    {"selectattr", "* **", Select</*kByAttribute=*/true, /*kKeeps=*/true>},
});

}  // namespace

std::span<const JinjaCallableRow> SelectionFilters() {
  return kSelectionFilters;
}

}  // namespace headrace
