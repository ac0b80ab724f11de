// Python's operators on template values.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_OPERATORS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_OPERATORS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

enum class BinaryOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

enum class CompareOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

// As written in a template: "+", "not in".
std::string_view SymbolOf(BinaryOperator op);
std::string_view SymbolOf(CompareOperator op);

// Python's bool(). Never fails: every value has a truth.
bool IsTruthy(const JinjaValue& value);

// Errors: INVALID_ARGUMENT for operands of the wrong types, undefined ones
// (saying what is undefined), division by zero, integers beyond 64 bits, and
// results that are too large.
absl::StatusOr<JinjaValue> ApplyBinary(JinjaBudget& budget, BinaryOperator op,
                                       const JinjaValue& left,
                                       const JinjaValue& right);
absl::StatusOr<JinjaValue> Negate(const JinjaValue& value);
absl::StatusOr<JinjaValue> Plus(const JinjaValue& value);

// Errors: INVALID_ARGUMENT for types that have no order, or are no container.
absl::StatusOr<bool> ApplyCompare(JinjaBudget& budget, CompareOperator op,
                                  const JinjaValue& left,
                                  const JinjaValue& right);

// The text with &, <, >, ' and " as HTML entities; markup stays as it is.
MarkedText EscapeHtml(const JinjaValue& string);

// Offset of the first `needle` at or after `from`, or npos, in linear time.
size_t FindText(std::string_view text, std::string_view needle, size_t from);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_OPERATORS_H_
