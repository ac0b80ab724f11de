// Methods of dicts, lists and loops, and where each type finds its own.
#include <array>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/loop.h"
#include "engine/tokenizer/jinja/methods.h"
#include "engine/tokenizer/jinja/operators.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

Result DictGet(JinjaCall& call) {
  const JinjaValue& key = *call.Argument(0);
  if (!IsHashable(key)) return JinjaTypeError("a key is no list or dict", key);
  const JinjaDict& dict = *call.self.dict();
  RETURN_IF_ERROR(call.runtime.budget.ChargeSearch(dict.items.size()));
  const JinjaValue* item = dict.Find(key);
  if (item != nullptr) return *item;
  const JinjaValue* otherwise = call.Argument(1);
  return otherwise == nullptr ? JinjaValue() : *otherwise;
}

Result DictKeys(JinjaCall& call) {
  std::vector<JinjaValue> keys;
  for (const auto& [key, item] : call.self.dict()->items) keys.push_back(key);
  return JinjaValue::Sequence(SequenceKind::kKeys, std::move(keys));
}

Result DictValues(JinjaCall& call) {
  std::vector<JinjaValue> values;
  for (const auto& [key, item] : call.self.dict()->items) {
    values.push_back(item);
  }
  return JinjaValue::Sequence(SequenceKind::kValues, std::move(values));
}

Result DictItems(JinjaCall& call) {
  std::vector<JinjaValue> items;
  for (const auto& [key, item] : call.self.dict()->items) {
    items.push_back(JinjaValue::Tuple({key, item}));
  }
  return JinjaValue::Sequence(SequenceKind::kItems, std::move(items));
}

Result Copy(JinjaCall& call) { return call.self; }

// Shared by index() and count(): compares every item.
absl::StatusOr<std::vector<int64_t>> PlacesOf(JinjaCall& call) {
  std::vector<int64_t> places;
  const std::vector<JinjaValue>& items = call.self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal,
                     ApplyCompare(call.runtime.budget, CompareOperator::kEqual,
                                  items[i], *call.Argument(0)));
    if (equal) places.push_back(static_cast<int64_t>(i));
  }
  return places;
}

Result ListCount(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> places, PlacesOf(call));
  return JinjaValue::Integer(static_cast<int64_t>(places.size()));
}

Result ListIndex(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> places, PlacesOf(call));
  if (places.empty()) {
    return absl::InvalidArgumentError("index() of a value that is not there");
  }
  return JinjaValue::Integer(places.front());
}

Result LoopCycle(JinjaCall& call) {
  return call.self.loop()->Cycle(call.rest.positional);
}

Result LoopChanged(JinjaCall& call) {
  return JinjaValue::Bool(
      call.self.loop()->Changed(std::move(call.rest.positional)));
}

constexpr auto kDictMethods = std::to_array<JinjaCallableRow>({
    {"copy", "", Copy},
    {"get", "key default?", DictGet},
    {"items", "", DictItems},
    {"keys", "", DictKeys},
    {"values", "", DictValues},
    {"clear", "", nullptr},
    {"fromkeys", "", nullptr},
    {"pop", "", nullptr},
    {"popitem", "", nullptr},
    {"setdefault", "", nullptr},
    {"update", "", nullptr},
});

constexpr auto kListMethods = std::to_array<JinjaCallableRow>({
    {"copy", "", Copy},
    {"count", "value", ListCount},
    {"index", "value", ListIndex},
    {"append", "", nullptr},
    {"clear", "", nullptr},
    {"extend", "", nullptr},
    {"insert", "", nullptr},
    {"pop", "", nullptr},
    {"remove", "", nullptr},
    {"reverse", "", nullptr},
    {"sort", "", nullptr},
});

constexpr auto kLoopMethods = std::to_array<JinjaCallableRow>({
    {"changed", "*", LoopChanged},
    {"cycle", "*", LoopCycle},
});

}  // namespace

std::span<const JinjaCallableRow> DictMethods() { return kDictMethods; }
std::span<const JinjaCallableRow> ListMethods() { return kListMethods; }
std::span<const JinjaCallableRow> LoopMethods() { return kLoopMethods; }

const JinjaCallableRow* FindMethod(const JinjaValue& object,
                                   std::string_view name) {
  if (object.is_string()) return FindRow(StringMethods(), name);
  if (object.dict() != nullptr) return FindRow(DictMethods(), name);
  if (object.loop() != nullptr) return FindRow(LoopMethods(), name);
  if (object.is_sequence_kind(SequenceKind::kList) ||
      object.is_sequence_kind(SequenceKind::kTuple)) {
    return FindRow(ListMethods(), name);
  }
  return nullptr;
}

bool IsMethodName(std::string_view name) {
  for (const auto rows :
       {StringMethods(), DictMethods(), ListMethods(), LoopMethods()}) {
    const JinjaCallableRow* row = FindRow(rows, name);
    if (row != nullptr && row->function != nullptr) return true;
  }
  return false;
}

}  // namespace headrace
