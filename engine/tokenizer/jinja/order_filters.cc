// Filters that compare the items with each other.
#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

absl::StatusOr<bool> IsBefore(JinjaBudget& budget, const JinjaValue& a,
                              const JinjaValue& b) {
  return ApplyCompare(budget, CompareOperator::kLess, a, b);
}

// Merges the two sorted halves [begin, middle) and [middle, end) of `order`.
absl::Status Merge(JinjaBudget& budget, const std::vector<JinjaValue>& keys,
                   bool is_reversed, std::span<size_t> order, size_t middle) {
  const std::vector<size_t> copy(order.begin(), order.end());
  size_t left = 0;
  size_t right = middle;
  for (size_t& slot : order) {
    bool takes_right = left == middle;
    if (!takes_right && right < copy.size()) {
      // Only a strictly better one overtakes: that keeps equals in order.
      const JinjaValue& a = keys[copy[is_reversed ? left : right]];
      const JinjaValue& b = keys[copy[is_reversed ? right : left]];
      ASSIGN_OR_RETURN(takes_right, IsBefore(budget, a, b));
    }
    slot = takes_right ? copy[right++] : copy[left++];
  }
  return absl::OkStatus();
}

// The order of the keys' indices that sorts them, equal ones as they were.
// Unlike std::stable_sort it is safe with keys that cannot be compared.
absl::StatusOr<std::vector<size_t>> SortedOrder(
    JinjaBudget& budget, const std::vector<JinjaValue>& keys,
    bool is_reversed) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin + width < order.size(); begin += 2 * width) {
      const size_t end = std::min(begin + 2 * width, order.size());
      RETURN_IF_ERROR(Merge(budget, keys, is_reversed,
                            std::span(order).subspan(begin, end - begin),
                            width));
    }
  }
  return order;
}

// The key that items are compared by.
class KeyReader {
 public:
  static absl::StatusOr<KeyReader> Create(JinjaBudget& budget,
                                          const JinjaValue* attribute,
                                          bool case_sensitive,
                                          const JinjaValue* otherwise) {
    KeyReader reader(budget, case_sensitive, otherwise);
    ASSIGN_OR_RETURN(reader.path_, ToAttributePath(attribute));
    return reader;
  }

  Result Read(const JinjaValue& item) const {
    ASSIGN_OR_RETURN(JinjaValue key, ReadAsItIs(item));
    return case_sensitive_ ? key : IgnoreCase(key);
  }

  Result ReadAsItIs(const JinjaValue& item) const {
    return FollowPath(*budget_, path_, item, otherwise_);
  }

 private:
  KeyReader(JinjaBudget& budget, bool case_sensitive,
            const JinjaValue* otherwise)
      : budget_(&budget),
        case_sensitive_(case_sensitive),
        otherwise_(otherwise) {}

  JinjaBudget* budget_;
  bool case_sensitive_;
  const JinjaValue* otherwise_;
  std::vector<JinjaValue> path_;
};

// sort(attribute='a,b') compares by a, then by b.
absl::StatusOr<std::vector<KeyReader>> SortKeys(JinjaCall& call,
                                                const JinjaValue* attribute) {
  std::vector<JinjaValue> attributes;
  if (attribute != nullptr && attribute->is_string()) {
    for (std::string_view part : SplitAt(attribute->text().bytes(), ',')) {
      attributes.push_back(JinjaValue::Text(std::string(part)));
    }
  } else {
    attributes.push_back(attribute == nullptr ? JinjaValue() : *attribute);
  }
  std::vector<KeyReader> readers;
  for (const JinjaValue& part : attributes) {
    ASSIGN_OR_RETURN(KeyReader reader,
                     KeyReader::Create(call.runtime.budget, &part,
                                       call.Truth(1, false), nullptr));
    readers.push_back(std::move(reader));
  }
  return readers;
}

Result Sort(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(const std::vector<KeyReader> readers,
                   SortKeys(call, call.Argument(2)));
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items,
                   ItemsOf(budget, call.self));
  std::vector<JinjaValue> keys;
  for (const JinjaValue& item : items) {
    std::vector<JinjaValue> parts;
    for (const KeyReader& reader : readers) {
      ASSIGN_OR_RETURN(JinjaValue part, reader.Read(item));
      parts.push_back(std::move(part));
    }
    keys.push_back(JinjaValue::List(std::move(parts)));
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> order,
                   SortedOrder(budget, keys, call.Truth(0, false)));
  std::vector<JinjaValue> sorted;
  for (size_t index : order) sorted.push_back(items[index]);
  return JinjaValue::List(std::move(sorted));
}

Result DictSort(JinjaCall& call) {
  if (call.self.dict() == nullptr) {
    return JinjaTypeError("dictsort needs a dict", call.self);
  }
  ASSIGN_OR_RETURN(const MarkedText by,
                   call.Text(1, MarkedText("key", TextOrigin::kTemplate)));
  if (by.bytes() != "key" && by.bytes() != "value") {
    return absl::InvalidArgumentError(
        Concat("dictsort by '", by.bytes(), "' is neither key nor value"));
  }
  const JinjaValue::DictItems& items = call.self.dict()->items;
  std::vector<JinjaValue> keys;
  for (const auto& [key, value] : items) {
    const JinjaValue& chosen = by.bytes() == "key" ? key : value;
    keys.push_back(call.Truth(0, false) ? chosen : IgnoreCase(chosen));
  }
  ASSIGN_OR_RETURN(
      const std::vector<size_t> order,
      SortedOrder(call.runtime.budget, keys, call.Truth(2, false)));
  std::vector<JinjaValue> sorted;
  for (size_t index : order) {
    sorted.push_back(
        JinjaValue::Tuple({items[index].first, items[index].second}));
  }
  return JinjaValue::List(std::move(sorted));
}

Result Unique(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(const KeyReader reader,
                   KeyReader::Create(budget, call.Argument(1),
                                     call.Truth(0, false), nullptr));
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items,
                   ItemsOf(budget, call.self));
  std::vector<JinjaValue> seen;
  std::vector<JinjaValue> kept;
  for (const JinjaValue& item : items) {
    ASSIGN_OR_RETURN(JinjaValue key, reader.Read(item));
    if (!IsHashable(key)) return JinjaTypeError("unique needs scalars", key);
    RETURN_IF_ERROR(budget.Charge(static_cast<int64_t>(seen.size()) / 8));
    const bool is_new = std::none_of(
        seen.begin(), seen.end(),
        [&key](const JinjaValue& other) { return JinjaEquals(other, key); });
    if (!is_new) continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return JinjaValue::Generator(std::move(kept));
}

template <bool kLargest>
Result Extreme(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(const KeyReader reader,
                   KeyReader::Create(budget, call.Argument(1),
                                     call.Truth(0, false), nullptr));
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items,
                   ItemsOf(budget, call.self));
  if (items.empty()) {
    return JinjaValue::Undefined("No aggregated item, sequence was empty.");
  }
  size_t best = 0;
  ASSIGN_OR_RETURN(JinjaValue best_key, reader.Read(items[0]));
  for (size_t i = 1; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(JinjaValue key, reader.Read(items[i]));
    ASSIGN_OR_RETURN(const bool is_better,
                     kLargest ? IsBefore(budget, best_key, key)
                              : IsBefore(budget, key, best_key));
    if (!is_better) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Result GroupBy(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(
      const KeyReader reader,
      KeyReader::Create(budget, call.Argument(0), call.Truth(2, false),
                        call.ArgumentOrNone(1)));
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items,
                   ItemsOf(budget, call.self));
  std::vector<JinjaValue> keys;
  for (const JinjaValue& item : items) {
    ASSIGN_OR_RETURN(JinjaValue key, reader.Read(item));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(const std::vector<size_t> order,
                   SortedOrder(budget, keys, /*is_reversed=*/false));
  std::vector<JinjaValue> groups;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    std::vector<JinjaValue> members;
    while (end < order.size() &&
           JinjaEquals(keys[order[begin]], keys[order[end]])) {
      members.push_back(items[order[end++]]);
    }
    if (end == begin) members.push_back(items[order[end++]]);  // a NaN
    // Shown as the first member has it, not in lower case.
    ASSIGN_OR_RETURN(JinjaValue shown, reader.ReadAsItIs(members.front()));
    groups.push_back(JinjaValue::Sequence(
        SequenceKind::kGroup,
        {std::move(shown), JinjaValue::List(std::move(members))}));
    begin = end;
  }
  return JinjaValue::List(std::move(groups));
}

constexpr auto kOrderFilters = std::to_array<JinjaCallableRow>({
    {"dictsort", "case_sensitive? by? reverse?", DictSort},
    {"groupby", "attribute default? case_sensitive?", GroupBy},
    {"max", "case_sensitive? attribute?", Extreme</*kLargest=*/true>},
    {"min", "case_sensitive? attribute?", Extreme</*kLargest=*/false>},
    {"sort", "reverse? case_sensitive? attribute?", Sort},
    {"unique", "case_sensitive? attribute?", Unique},
});

}  // namespace

std::span<const JinjaCallableRow> OrderFilters() { return kOrderFilters; }

}  // namespace headrace
