#include "engine/tokenizer/jinja/functions.h"

#include <array>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/civil_time.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

Result RaiseException(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText words,
                   ToText(call.runtime.budget, *call.Argument(0)));
  call.runtime.refused = true;
  return absl::InvalidArgumentError(words.bytes());
}

// How many steps of `step` lead from `start` to before `stop`.
uint64_t StepsBetween(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  // Unsigned, because the distance may be beyond 63 bits.
  const uint64_t distance =
      step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
               : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return (distance - 1) / stride + 1;
}

Result Range(JinjaCall& call) {
  int64_t start = 0;
  ASSIGN_OR_RETURN(int64_t stop, call.Integer(0, 0));
  if (call.Argument(1) != nullptr) {
    start = stop;
    ASSIGN_OR_RETURN(stop, call.Integer(1, 0));
  }
  ASSIGN_OR_RETURN(const int64_t step, call.Integer(2, 1));
  if (step == 0) return absl::InvalidArgumentError("range() with step 0");
  const uint64_t count = StepsBetween(start, stop, step);
  const auto limit =
      static_cast<uint64_t>(call.runtime.budget.limits().max_range);
  if (count > limit) {
    return absl::InvalidArgumentError(
        Concat("range() of ", count, " numbers; the limit is ", limit));
  }
  std::vector<JinjaValue> items;
  for (uint64_t i = 0; i < count; ++i) {
    // Unsigned, because a product on the way may be beyond 63 bits.
    items.push_back(JinjaValue::Integer(static_cast<int64_t>(
        static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step))));
  }
  return JinjaValue::Sequence(SequenceKind::kRange, std::move(items));
}

// The items of dict(mapping or pairs, name=value, …).
absl::StatusOr<JinjaValue::DictItems> DictItemsOf(JinjaCall& call) {
  JinjaValue::DictItems items;
  const auto set = [&](JinjaValue key, JinjaValue value) {
    for (auto& [candidate, old] : items) {
      if (JinjaEquals(candidate, key)) {
        old = std::move(value);
        return;
      }
    }
    items.emplace_back(std::move(key), std::move(value));
  };
  const JinjaValue* from = call.Argument(0);
  if (from != nullptr && from->dict() != nullptr) {
    items = from->dict()->items;
  } else if (from != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<JinjaValue> pairs,
                     ItemsOf(call.runtime.budget, *from));
    for (const JinjaValue& pair : pairs) {
      ASSIGN_OR_RETURN(std::vector<JinjaValue> parts,
                       ItemsOf(call.runtime.budget, pair));
      if (parts.size() != 2 || !IsHashable(parts[0])) {
        return JinjaTypeError("dict() needs pairs of key and value", pair);
      }
      RETURN_IF_ERROR(call.runtime.budget.Charge(
          1 + static_cast<int64_t>(items.size()) / 8));
      set(std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (auto& [name, value] : call.rest.named) {
    set(JinjaValue::Text(name), std::move(value));
  }
  return items;
}

Result DictFunction(JinjaCall& call) {
  ASSIGN_OR_RETURN(JinjaValue::DictItems items, DictItemsOf(call));
  return JinjaValue::Dict(std::move(items));
}

Result NamespaceFunction(JinjaCall& call) {
  ASSIGN_OR_RETURN(JinjaValue::DictItems items, DictItemsOf(call));
  JinjaNamespace& created = call.runtime.namespaces.emplace_back();
  for (auto& [key, value] : items) {
    if (!key.is_string()) return JinjaTypeError("a name is a string", key);
    created.attributes.emplace_back(key.text().bytes(), std::move(value));
  }
  return JinjaValue::Namespace(&created);
}

std::tm ToTm(const absl::CivilSecond& time) {
  std::tm tm = {};
  tm.tm_year = static_cast<int>(time.year() - 1900);
  tm.tm_mon = time.month() - 1;
  tm.tm_mday = time.day();
  tm.tm_hour = time.hour();
  tm.tm_min = time.minute();
  tm.tm_sec = time.second();
  const absl::CivilDay day(time);
  // absl counts weekdays from Monday, std::tm from Sunday.
  tm.tm_wday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;
  tm.tm_yday = absl::GetYearDay(day) - 1;
  tm.tm_isdst = -1;
  return tm;
}

// Python's strftime() of a local time without zone. The names are English, as
// in Python's "C" locale.
Result StrftimeNow(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText format, call.Text(0, MarkedText()));
  constexpr std::string_view kDirectives =
      "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY%";
  const std::tm tm = ToTm(call.runtime.local_time);
  const std::string_view bytes = format.bytes();
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '%') {
      out.push_back(bytes[i]);
      continue;
    }
    const char directive = ++i < bytes.size() ? bytes[i] : '\0';
    if (directive == 'f') {
      out.append("000000");
    } else if (Contains(kDirectives, directive)) {
      const char spec[] = {'%', directive, '\0'};
      std::array<char, 64> text;
      out.append(text.data(),
                 std::strftime(text.data(), text.size(), spec, &tm));
    } else if (directive != 'z' && directive != 'Z') {
      return absl::InvalidArgumentError(Concat(
          "strftime_now() does not know %", std::string_view(&directive, 1)));
    }
  }
  return JinjaValue::Text(MarkedText(std::move(out), format.origin()));
}

constexpr auto kFunctions = std::to_array<JinjaCallableRow>({
    {"dict", "<mapping>? **", DictFunction},
    {"namespace", "<mapping>? **", NamespaceFunction},
    {"raise_exception", "message", RaiseException},
    {"range", "start stop? step?", Range},
    {"strftime_now", "format", StrftimeNow},
});

}  // namespace

const JinjaCallableRow* FindFunction(std::string_view name) {
  return FindRow(kFunctions, name);
}

}  // namespace headrace
