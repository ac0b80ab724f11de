#include "engine/tokenizer/jinja/arithmetic.h"
#include "engine/tokenizer/jinja/plain_text.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"

namespace headrace {
namespace {

absl::Status DivisionByZero() {
  return absl::InvalidArgumentError("division by zero");
}

absl::Status TooLarge(BinaryOperator op) {
  return absl::InvalidArgumentError(
      Concat("the result of ", SymbolOf(op), " is an integer beyond 64 bits"));
}

// Rounds towards minus infinity. `b` is neither 0 nor (with the smallest `a`)
// −1.
int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The remainder has the divisor's sign. Not from the quotient, which times `b`
// may be below the smallest integer.
int64_t FloorModulo(int64_t a, int64_t b) {
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b
                                                      : remainder;
}

double FloorModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  if ((remainder < 0) != (b < 0)) remainder += b;
  return remainder;
}

// The remainder decides, not the rounded quotient (CPython, _float_div_mod).
double FloorDivide(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

std::optional<int64_t> IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(result, base, &result)) {
      return std::nullopt;
    }
    exponent /= 2;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return std::nullopt;
    }
  }
  return result;
}

absl::StatusOr<JinjaValue> ApplyToFloats(BinaryOperator op, double a, double b,
                                         TextOrigin origin) {
  if (b == 0 &&
      (op == BinaryOperator::kDivide || op == BinaryOperator::kFloorDivide ||
       op == BinaryOperator::kModulo)) {
    return DivisionByZero();
  }
  double result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      result = a + b;
      break;
    case BinaryOperator::kSubtract:
      result = a - b;
      break;
    case BinaryOperator::kMultiply:
      result = a * b;
      break;
    case BinaryOperator::kDivide:
      result = a / b;
      break;
    case BinaryOperator::kFloorDivide:
      result = FloorDivide(a, b);
      break;
    case BinaryOperator::kModulo:
      result = FloorModulo(a, b);
      break;
    case BinaryOperator::kPower:
      if (a == 0 && b < 0) return DivisionByZero();
      result = std::pow(a, b);
      if ((std::isnan(result) && !std::isnan(a) && !std::isnan(b)) ||
          (std::isinf(result) && std::isfinite(a) && std::isfinite(b))) {
        return absl::InvalidArgumentError(
            "the result of ** is not a finite real number");
      }
      break;
  }
  return JinjaValue::Float(result, origin);
}

absl::StatusOr<JinjaValue> ApplyToIntegers(BinaryOperator op, int64_t a,
                                           int64_t b, TextOrigin origin) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOperator::kDivide:
      return ApplyToFloats(op, static_cast<double>(a), static_cast<double>(b),
                           origin);
    case BinaryOperator::kFloorDivide:
      if (b == 0) return DivisionByZero();
      overflow = b == -1 && a == std::numeric_limits<int64_t>::min();
      if (!overflow) result = FloorDivide(a, b);
      break;
    case BinaryOperator::kModulo:
      if (b == 0) return DivisionByZero();
      result = b == -1 ? 0 : FloorModulo(a, b);
      break;
    case BinaryOperator::kPower: {
      if (b < 0) {
        return ApplyToFloats(op, static_cast<double>(a), static_cast<double>(b),
                             origin);
      }
      const std::optional<int64_t> power = IntegerPower(a, b);
      overflow = !power.has_value();
      result = power.value_or(0);
      break;
    }
  }
  if (overflow) return TooLarge(op);
  return JinjaValue::Integer(result, origin);
}

// To a multiple of 10^-precision, which is negative.
absl::StatusOr<JinjaValue> RoundInteger(const JinjaValue& value,
                                        int64_t precision) {
  if (precision < -18) {
    return absl::InvalidArgumentError(
        Concat("round() to ", precision, " digits; the least is -18"));
  }
  int64_t unit = 1;
  for (int64_t i = precision; i < 0; ++i) unit *= 10;
  int64_t multiple = FloorDivide(value.integer(), unit);
  const int64_t rest = FloorModulo(value.integer(), unit);
  if (rest > unit - rest || (rest == unit - rest && multiple % 2 != 0)) {
    ++multiple;
  }
  int64_t result = 0;
  if (__builtin_mul_overflow(multiple, unit, &result)) {
    return absl::InvalidArgumentError(
        "the result of round() is an integer beyond 64 bits");
  }
  return JinjaValue::Integer(result, value.origin());
}

}  // namespace

absl::StatusOr<JinjaValue> ApplyToNumbers(BinaryOperator op,
                                          const JinjaValue& left,
                                          const JinjaValue& right) {
  const TextOrigin origin = MergeOrigins(left.origin(), right.origin());
  if (left.is_float() || right.is_float()) {
    return ApplyToFloats(op, left.number(), right.number(), origin);
  }
  return ApplyToIntegers(op, left.integer(), right.integer(), origin);
}

absl::StatusOr<JinjaValue> RoundNumber(const JinjaValue& value,
                                       int64_t precision) {
  if (!value.is_float()) {
    return precision >= 0 ? JinjaValue::Integer(value.integer(), value.origin())
                          : RoundInteger(value, precision);
  }
  constexpr int64_t kMostDigits = 400;  // more than any double has
  const double number = value.number();
  if (!std::isfinite(number) || precision > kMostDigits) return value;
  double rounded = 0;
  if (precision >= 0) {
    // The decimal conversion is exact and rounds exact halves to even.
    const std::string text =
        absl::StrFormat("%.*f", static_cast<int>(precision), number);
    rounded = std::strtod(text.c_str(), nullptr);
  } else if (precision > -kMostDigits) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    rounded = std::isinf(unit) ? 0.0 : std::nearbyint(number / unit) * unit;
  }
  return JinjaValue::Float(std::copysign(rounded, number), value.origin());
}

}  // namespace headrace
