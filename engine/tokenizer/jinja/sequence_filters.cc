// Filters on sequences that keep their order.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

Result Length(JinjaCall& call) {
  const std::optional<int64_t> length = LengthOf(call.self);
  if (!length.has_value())
    return JinjaTypeError("length needs a value that has one", call.self);
  return JinjaValue::Integer(*length);
}

Result List(JinjaCall& call) {
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, call.self));
  return JinjaValue::List(std::move(items));
}

Result First(JinjaCall& call) {
  if (const JinjaSequence* sequence = call.self.sequence()) {
    // Takes one item of a generator and leaves it the rest.
    size_t index = 0;
    if (sequence->kind == SequenceKind::kGenerator) {
      index = sequence->consumed;
      sequence->consumed = std::min(index + 1, sequence->items.size());
    }
    if (index < sequence->items.size()) return sequence->items[index];
  } else {
    ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                     ItemsOf(call.runtime.budget, call.self));
    if (!items.empty()) return items.front();
  }
  return JinjaValue::Undefined("No first item, sequence was empty.");
}

Result Last(JinjaCall& call) {
  if (call.self.is_sequence_kind(SequenceKind::kGenerator)) {
    return JinjaTypeError("last needs a sequence", call.self);
  }
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, call.self));
  if (!items.empty()) return items.back();
  return JinjaValue::Undefined("No last item, sequence was empty.");
}

Result Reverse(JinjaCall& call) {
  if (call.self.is_string()) {
    return GetSlice(call.runtime.budget, call.self,
                    {JinjaValue(), JinjaValue(), JinjaValue::Integer(-1)});
  }
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, call.self));
  std::reverse(items.begin(), items.end());
  return call.self.is_sequence_kind(SequenceKind::kGenerator)
             ? JinjaValue::List(std::move(items))
             : JinjaValue::Generator(std::move(items));
}

Result Items(JinjaCall& call) {
  std::vector<JinjaValue> items;
  if (!call.self.is_undefined()) {
    if (call.self.dict() == nullptr)
      return JinjaTypeError("items needs a dict", call.self);
    for (const auto& [key, item] : call.self.dict()->items) {
      items.push_back(JinjaValue::Tuple({key, item}));
    }
  }
  return JinjaValue::Generator(std::move(items));
}

// Lists of `size` items; the last is filled up when there is something to
// fill it with.
Result Batch(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t size, call.Integer(0, 0));
  const JinjaValue* fill = call.ArgumentOrNone(1);
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, call.self));
  std::vector<JinjaValue> batches;
  std::vector<JinjaValue> batch;
  for (JinjaValue& item : items) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(JinjaValue::List(std::exchange(batch, {})));
    }
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (fill != nullptr && size > static_cast<int64_t>(batch.size())) {
      const size_t missing = static_cast<size_t>(size) - batch.size();
      RETURN_IF_ERROR(call.runtime.budget.ChargeItems(missing));
      batch.insert(batch.end(), missing, *fill);
    }
    batches.push_back(JinjaValue::List(std::move(batch)));
  }
  return JinjaValue::Generator(std::move(batches));
}

// `slices` lists of almost the same length; the first ones are longer.
Result Slice(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t slices, call.Integer(0, 0));
  const JinjaValue* fill = call.ArgumentOrNone(1);
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, call.self));
  if (slices == 0) {
    return absl::InvalidArgumentError("slice into 0 lists");
  }
  RETURN_IF_ERROR(call.runtime.budget.ChargeParts(
      static_cast<size_t>(std::max<int64_t>(slices, 0))));
  std::vector<JinjaValue> lists;
  auto next = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const auto count = static_cast<int64_t>(items.size());
    const bool is_longer = i < count % slices;
    const int64_t length = count / slices + (is_longer ? 1 : 0);
    std::vector<JinjaValue> list(next, next + length);
    next += length;
    if (fill != nullptr && !is_longer) list.push_back(*fill);
    lists.push_back(JinjaValue::List(std::move(list)));
  }
  return JinjaValue::Generator(std::move(lists));
}

Result Sum(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> path,
                   ToAttributePath(call.Argument(0)));
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items, ItemsOf(budget, call.self));
  JinjaValue sum =
      call.Argument(1) == nullptr ? JinjaValue::Integer(0) : *call.Argument(1);
  if (sum.is_string()) return JinjaTypeError("sum needs a number", sum);
  for (JinjaValue& item : items) {
    ASSIGN_OR_RETURN(const JinjaValue value,
                     FollowPath(budget, path, std::move(item), nullptr));
    ASSIGN_OR_RETURN(sum,
                     ApplyBinary(budget, BinaryOperator::kAdd, sum, value));
  }
  return sum;
}

constexpr auto kSequenceFilters = std::to_array<JinjaCallableRow>({
    {"batch", "linecount fill_with?", Batch},
    {"count", "", Length},
    {"first", "", First},
    {"items", "", Items},
    {"last", "", Last},
    {"length", "", Length},
    {"list", "", List},
    {"reverse", "", Reverse},
    {"slice", "slices fill_with?", Slice},
    {"sum", "attribute? start?", Sum},
});

}  // namespace

std::span<const JinjaCallableRow> SequenceFilters() { return kSequenceFilters; }

}  // namespace headrace
