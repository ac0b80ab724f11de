#include "engine/tokenizer/jinja/tests.h"

#include <array>
#include <optional>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/methods.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/printing.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

// A test that only looks at the value.
template <bool (*kHolds)(const JinjaValue&)>
Result Check(JinjaCall& call) {
  return JinjaValue::Bool(kHolds(call.self));
}

bool IsDefined(const JinjaValue& value) { return !value.is_undefined(); }
bool IsUndefined(const JinjaValue& value) { return value.is_undefined(); }
bool IsNone(const JinjaValue& value) { return value.is_none(); }
bool IsBoolean(const JinjaValue& value) { return value.is_bool(); }
bool IsInteger(const JinjaValue& value) { return value.is_integer(); }
bool IsFloat(const JinjaValue& value) { return value.is_float(); }
bool IsNumber(const JinjaValue& value) { return value.is_number(); }
bool IsString(const JinjaValue& value) { return value.is_string(); }
bool IsMapping(const JinjaValue& value) { return value.dict() != nullptr; }
bool IsEscaped(const JinjaValue& value) { return value.is_markup(); }
bool IsTrue(const JinjaValue& value) {
  return value.is_bool() && value.integer() == 1;
}
bool IsFalse(const JinjaValue& value) {
  return value.is_bool() && value.integer() == 0;
}

// What can be called, or what only iteration and length are known of.
bool IsCallable(const JinjaValue& value) {
  return value.callable() != nullptr || value.macro() != nullptr ||
         value.loop() != nullptr || value.is_undefined();
}
bool CanIterate(const JinjaValue& value) {
  return IsIterable(value) || value.loop() != nullptr;
}
bool IsSequence(const JinjaValue& value) {
  return LengthOf(value).has_value() &&
         !value.is_sequence_kind(SequenceKind::kKeys) &&
         !value.is_sequence_kind(SequenceKind::kValues) &&
         !value.is_sequence_kind(SequenceKind::kItems);
}

template <CompareOperator kOperator>
Result Compare(JinjaCall& call) {
  ASSIGN_OR_RETURN(const bool holds,
                   ApplyCompare(call.runtime.budget, kOperator, call.self,
                                *call.Argument(0)));
  return JinjaValue::Bool(holds);
}

absl::StatusOr<bool> IsDivisible(JinjaCall& call, const JinjaValue& by,
                                 int64_t remainder) {
  if (!call.self.is_number()) {
    return JinjaTypeError("the test needs a number", call.self);
  }
  ASSIGN_OR_RETURN(
      const JinjaValue rest,
      ApplyBinary(call.runtime.budget, BinaryOperator::kModulo, call.self, by));
  return JinjaEquals(rest, JinjaValue::Integer(remainder));
}

template <int kRemainder>
Result Parity(JinjaCall& call) {
  ASSIGN_OR_RETURN(const bool holds,
                   IsDivisible(call, JinjaValue::Integer(2), kRemainder));
  return JinjaValue::Bool(holds);
}

Result DivisibleBy(JinjaCall& call) {
  ASSIGN_OR_RETURN(const bool holds, IsDivisible(call, *call.Argument(0), 0));
  return JinjaValue::Bool(holds);
}

// Upper or lower case, by the string method of the value's text.
Result HasCase(JinjaCall& call, std::string_view method) {
  ASSIGN_OR_RETURN(MarkedText text, ToText(call.runtime.budget, call.self));
  return CallRow(call.runtime, *FindRow(StringMethods(), method),
                 JinjaValue::Text(std::move(text)), {});
}
Result IsLower(JinjaCall& call) { return HasCase(call, "islower"); }
Result IsUpper(JinjaCall& call) { return HasCase(call, "isupper"); }

// Python's `is`. Only None, bools and the very same container are the same.
Result SameAs(JinjaCall& call) {
  const JinjaValue& a = call.self;
  const JinjaValue& b = *call.Argument(0);
  const bool same =
      (a.is_none() && b.is_none()) ||
      (a.is_bool() && b.is_bool() && a.integer() == b.integer()) ||
      (a.sequence() != nullptr && a.sequence() == b.sequence()) ||
      (a.dict() != nullptr && a.dict() == b.dict()) ||
      (a.string() != nullptr && a.string() == b.string());
  return JinjaValue::Bool(same);
}

Result IsFilterName(JinjaCall& call) {
  return JinjaValue::Bool(FindFilter(call.self.text().bytes()) != nullptr);
}
Result IsTestName(JinjaCall& call) {
  return JinjaValue::Bool(FindTest(call.self.text().bytes()) != nullptr);
}

constexpr auto kTests = std::to_array<JinjaCallableRow>({
    {"boolean", "", Check<IsBoolean>},
    {"callable", "", Check<IsCallable>},
    {"defined", "", Check<IsDefined>},
    {"divisibleby", "num", DivisibleBy},
    {"escaped", "", Check<IsEscaped>},
    {"even", "", Parity<0>},
    {"false", "", Check<IsFalse>},
    {"filter", "", IsFilterName},
    {"float", "", Check<IsFloat>},
    {"integer", "", Check<IsInteger>},
    {"iterable", "", Check<CanIterate>},
    {"lower", "", IsLower},
    {"mapping", "", Check<IsMapping>},
    {"none", "", Check<IsNone>},
    {"number", "", Check<IsNumber>},
    {"odd", "", Parity<1>},
    {"sameas", "other", SameAs},
    {"sequence", "", Check<IsSequence>},
    {"string", "", Check<IsString>},
    {"test", "", IsTestName},
    {"true", "", Check<IsTrue>},
    {"undefined", "", Check<IsUndefined>},
    {"upper", "", IsUpper},
    {"in", "seq", Compare<CompareOperator::kIn>},
    {"==", "other", Compare<CompareOperator::kEqual>},
    {"eq", "other", Compare<CompareOperator::kEqual>},
    {"equalto", "other", Compare<CompareOperator::kEqual>},
    {"!=", "other", Compare<CompareOperator::kNotEqual>},
    {"ne", "other", Compare<CompareOperator::kNotEqual>},
    {">", "other", Compare<CompareOperator::kGreater>},
    {"gt", "other", Compare<CompareOperator::kGreater>},
    {"greaterthan", "other", Compare<CompareOperator::kGreater>},
    {">=", "other", Compare<CompareOperator::kGreaterOrEqual>},
    {"ge", "other", Compare<CompareOperator::kGreaterOrEqual>},
    {"<", "other", Compare<CompareOperator::kLess>},
    {"lt", "other", Compare<CompareOperator::kLess>},
    {"lessthan", "other", Compare<CompareOperator::kLess>},
    {"<=", "other", Compare<CompareOperator::kLessOrEqual>},
    {"le", "other", Compare<CompareOperator::kLessOrEqual>},
});

}  // namespace

const JinjaCallableRow* FindTest(std::string_view name) {
  return FindRow(kTests, name);
}

}  // namespace headrace
