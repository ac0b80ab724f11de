// Filters that give numbers, and those that only pick a value.
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/arithmetic.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

absl::Status BeyondIntegers(std::string_view text) {
  return absl::InvalidArgumentError(
      Concat("int: ", text, " is beyond 64 bits"));
}

// Takes off white space, and underscores between digits. nullopt when an
// underscore is elsewhere.
std::optional<std::string> NumberText(std::string_view bytes) {
  const TextRange range =
      StripRight(bytes, StripLeft(bytes, {0, bytes.size()}));
  bytes = bytes.substr(range.begin, range.end - range.begin);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      text.push_back(bytes[i]);
    } else if (i == 0 || i + 1 == bytes.size() ||
               !absl::ascii_isalnum(bytes[i - 1]) ||
               !absl::ascii_isalnum(bytes[i + 1])) {
      return std::nullopt;
    }
  }
  return text;
}

std::optional<double> ParseFloat(std::string_view bytes) {
  const std::optional<std::string> text = NumberText(bytes);
  double value = 0;
  if (!text.has_value() || text->find_first_of("(xX") != std::string::npos ||
      !absl::SimpleAtod(*text, &value)) {
    return std::nullopt;
  }
  return value;
}

// The digits of int(text, base), without sign and prefix, and their base.
struct Digits {
  bool is_negative = false;
  std::string_view text;
  int base = 10;
};

int PrefixBase(std::string_view digits) {
  if (digits.size() < 3 || digits[0] != '0') return 0;
  switch (absl::ascii_tolower(digits[1])) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 0;
  }
}

Digits ReadDigits(std::string_view text, int base) {
  Digits digits = {text.starts_with('-'), text, base};
  if (text.starts_with('-') || text.starts_with('+')) {
    digits.text.remove_prefix(1);
  }
  const int prefix = PrefixBase(digits.text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits.text.remove_prefix(2);
    digits.base = prefix;
  } else if (base == 0) {
    digits.base = 10;
  }
  return digits;
}

// nullopt for a text that is no integer.
absl::StatusOr<std::optional<int64_t>> ParseInteger(std::string_view bytes,
                                                    int base) {
  const std::optional<std::string> text = NumberText(bytes);
  if (!text.has_value()) return std::nullopt;
  const Digits digits = ReadDigits(*text, base);
  if (digits.text.empty()) return std::nullopt;
  int64_t value = 0;
  for (char c : digits.text) {
    int digit = 99;
    if (absl::ascii_isdigit(c)) digit = c - '0';
    if (absl::ascii_isalpha(c)) digit = absl::ascii_tolower(c) - 'a' + 10;
    if (digit >= digits.base) return std::nullopt;
    // Towards the sign, since the least integer has no positive twin.
    if (digits.is_negative) digit = -digit;
    if (__builtin_mul_overflow(value, digits.base, &value) ||
        __builtin_add_overflow(value, digit, &value)) {
      return BeyondIntegers(*text);
    }
  }
  return value;
}

absl::StatusOr<JinjaValue> Truncated(double value, TextOrigin origin) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(value >= -kLimit && value < kLimit)) {
    return BeyondIntegers(std::to_string(value));
  }
  return JinjaValue::Integer(static_cast<int64_t>(value), origin);
}

Result IntFilter(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t base, call.Integer(1, 10));
  if (base < 0 || base == 1 || base > 36) {
    return absl::InvalidArgumentError(
        Concat("int: base ", base, " is not 0 or 2 to 36"));
  }
  const JinjaValue otherwise =
      call.Argument(0) == nullptr ? JinjaValue::Integer(0) : *call.Argument(0);
  const JinjaValue& self = call.self;
  if (self.is_undefined()) return JinjaTypeError("int needs a value", self);
  std::optional<double> real;
  if (self.is_string()) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> whole,
                     ParseInteger(self.text().bytes(), static_cast<int>(base)));
    if (whole.has_value()) return JinjaValue::Integer(*whole, self.origin());
    real = ParseFloat(self.text().bytes());
  } else if (self.is_float()) {
    real = self.number();
    if (std::isinf(*real)) return BeyondIntegers(std::to_string(*real));
  } else if (self.is_number()) {
    return JinjaValue::Integer(self.integer(), self.origin());
  }
  if (!real.has_value() || !std::isfinite(*real)) return otherwise;
  return Truncated(*real, self.origin());
}

Result FloatFilter(JinjaCall& call) {
  const JinjaValue& self = call.self;
  if (self.is_undefined()) return JinjaTypeError("float needs a value", self);
  if (self.is_number()) {
    return JinjaValue::Float(self.number(), self.origin());
  }
  if (self.is_string()) {
    const std::optional<double> value = ParseFloat(self.text().bytes());
    if (value.has_value()) return JinjaValue::Float(*value, self.origin());
  }
  return call.Argument(0) == nullptr ? JinjaValue::Float(0) : *call.Argument(0);
}

Result Abs(JinjaCall& call) {
  if (!call.self.is_number())
    return JinjaTypeError("abs needs a number", call.self);
  if (call.self.is_float()) {
    return JinjaValue::Float(std::fabs(call.self.number()), call.self.origin());
  }
  return call.self.integer() < 0 ? Negate(call.self) : Plus(call.self);
}

Result Round(JinjaCall& call) {
  if (!call.self.is_number())
    return JinjaTypeError("round needs a number", call.self);
  ASSIGN_OR_RETURN(const int64_t precision, call.Integer(0, 0));
  ASSIGN_OR_RETURN(const MarkedText method,
                   call.Text(1, MarkedText("common", TextOrigin::kTemplate)));
  if (method.bytes() == "common") return RoundNumber(call.self, precision);
  if (method.bytes() != "ceil" && method.bytes() != "floor") {
    return absl::InvalidArgumentError(Concat("round: method '", method.bytes(),
                                             "' is not common, ceil or floor"));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.number() * unit;
  if (unit == 0 || !std::isfinite(scaled)) {
    return absl::InvalidArgumentError(
        "round: the number or the precision is too large");
  }
  return JinjaValue::Float(
      (method.bytes() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) /
          unit,
      call.self.origin());
}

Result Default(JinjaCall& call) {
  const bool replaces_false = call.Truth(1, false);
  if (!call.self.is_undefined() && !(replaces_false && !IsTruthy(call.self))) {
    return call.self;
  }
  return call.Argument(0) == nullptr ? JinjaValue::Text(std::string())
                                     : *call.Argument(0);
}

Result Attr(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText name, call.Text(0, MarkedText()));
  return GetAttributeOnly(call.runtime.budget, call.self, name.bytes());
}

constexpr auto kNumberFilters = std::to_array<JinjaCallableRow>({
    {"abs", "", Abs},
    {"attr", "name", Attr},
    {"d", "default_value? boolean?", Default},
    {"default", "default_value? boolean?", Default},
    {"float", "default?", FloatFilter},
    {"int", "default? base?", IntFilter},
    {"round", "precision? method?", Round},
});

}  // namespace

std::span<const JinjaCallableRow> NumberFilters() { return kNumberFilters; }

}  // namespace headrace
