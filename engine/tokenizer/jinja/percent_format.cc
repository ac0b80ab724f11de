#include "engine/tokenizer/jinja/percent_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

// One conversion: %[flags][width][.precision]type.
struct Conversion {
  bool left = false;
  bool zeros = false;
  bool alternate = false;
  std::string_view plus;  // written before numbers that are not negative
  int width = 0;
  std::optional<int> precision;
  char type = 0;
  size_t end = 0;  // offset of what follows
};

constexpr int kMaxWidth = 4096;

absl::StatusOr<int> ReadNumber(std::string_view format, size_t& i) {
  int number = 0;
  for (; i < format.size() && absl::ascii_isdigit(format[i]); ++i) {
    number = number * 10 + (format[i] - '0');
    if (number > kMaxWidth) {
      return absl::InvalidArgumentError(
          Concat("a width in a format is more than the limit of ", kMaxWidth));
    }
  }
  return number;
}

// `i`: the offset after the percent sign.
absl::StatusOr<Conversion> ReadConversion(std::string_view format, size_t i) {
  Conversion conversion;
  for (; i < format.size(); ++i) {
    const char flag = format[i];
    if (flag == '-') {
      conversion.left = true;
    } else if (flag == '0') {
      conversion.zeros = true;
    } else if (flag == '#') {
      conversion.alternate = true;
    } else if (flag == '+') {
      conversion.plus = "+";
    } else if (flag == ' ') {
      if (conversion.plus.empty()) conversion.plus = " ";
    } else {
      break;
    }
  }
  ASSIGN_OR_RETURN(conversion.width, ReadNumber(format, i));
  if (i < format.size() && format[i] == '.') {
    ++i;
    ASSIGN_OR_RETURN(conversion.precision, ReadNumber(format, i));
  }
  if (i >= format.size()) {
    return absl::InvalidArgumentError("incomplete format");
  }
  conversion.type = format[i];
  conversion.end = i + 1;
  return conversion;
}

std::string FormatReal(const Conversion& conversion, double magnitude) {
  // The widest: 309 digits before the point, kMaxWidth after it.
  std::array<char, kMaxWidth + 320> buffer;
  std::string spec = conversion.alternate ? "%#.*" : "%.*";
  spec.push_back(conversion.type);
  const int size = std::snprintf(buffer.data(), buffer.size(), spec.c_str(),
                                 conversion.precision.value_or(6), magnitude);
  return std::string(buffer.data(), static_cast<size_t>(size));
}

std::string FormatWhole(const Conversion& conversion, uint64_t magnitude) {
  std::string digits;
  if (conversion.type == 'x') {
    digits = absl::StrFormat("%x", magnitude);
  } else if (conversion.type == 'X') {
    digits = absl::StrFormat("%X", magnitude);
  } else {
    digits = Concat(magnitude);
  }
  const auto fewest = static_cast<size_t>(conversion.precision.value_or(0));
  if (digits.size() < fewest) digits.insert(0, fewest - digits.size(), '0');
  return digits;
}

absl::StatusOr<std::string> FormatNumber(const Conversion& conversion,
                                         const JinjaValue& value) {
  const bool is_hex = conversion.type == 'x' || conversion.type == 'X';
  const bool is_real = Contains("fFeEgG", conversion.type);
  if (!value.is_number() || (is_hex && value.is_float())) {
    return JinjaTypeError(
        Concat("%", std::string_view(&conversion.type, 1), " needs a number"),
        value);
  }
  std::string sign(std::signbit(value.number()) ? "-" : conversion.plus);
  std::string digits;
  if (is_real) {
    digits = FormatReal(conversion, std::fabs(value.number()));
  } else if (value.is_float()) {
    constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
    if (!(std::fabs(value.number()) < kTooLarge)) {
      return absl::InvalidArgumentError("a number for %d is beyond 64 bits");
    }
    if (std::fabs(value.number()) < 1) sign = conversion.plus;
    digits = FormatWhole(conversion,
                         static_cast<uint64_t>(std::fabs(value.number())));
  } else {
    const int64_t whole = value.integer();
    digits =
        FormatWhole(conversion, whole < 0 ? 0 - static_cast<uint64_t>(whole)
                                          : static_cast<uint64_t>(whole));
  }
  if (is_hex && conversion.alternate) {
    sign.append({'0', conversion.type});
  }
  const auto width = static_cast<size_t>(conversion.width);
  const size_t size = sign.size() + digits.size();
  if (conversion.zeros && !conversion.left && size < width) {
    digits.insert(0, width - size, '0');
  }
  return sign + digits;
}

absl::StatusOr<MarkedText> FormatValue(const JinjaBudget& budget,
                                       const Conversion& conversion,
                                       const JinjaValue& value) {
  if (conversion.type == 's' || conversion.type == 'r') {
    MarkedText text;
    if (conversion.type == 's') {
      ASSIGN_OR_RETURN(text, ToText(budget, value));
    } else {
      ASSIGN_OR_RETURN(std::string repr, Repr(budget, value));
      text = MarkedText(std::move(repr), value.origin());
    }
    if (!conversion.precision.has_value()) return text;
    return text.Slice(
        0, OffsetOfCodePoint(text.bytes(),
                             static_cast<size_t>(*conversion.precision)));
  }
  if (!Contains("diufFeEgGxX", conversion.type)) {
    return absl::InvalidArgumentError(
        Concat("the format %", std::string_view(&conversion.type, 1),
               " is not supported"));
  }
  ASSIGN_OR_RETURN(std::string number, FormatNumber(conversion, value));
  return MarkedText(std::move(number), value.origin());
}

void AppendPadded(const Conversion& conversion, const MarkedText& text,
                  MarkedText& out) {
  const auto width = static_cast<size_t>(conversion.width);
  const size_t length = CountCodePoints(text.bytes());
  const std::string padding(length < width ? width - length : 0, ' ');
  if (!conversion.left) out.Append(padding, TextOrigin::kTemplate);
  out.Append(text);
  if (conversion.left) out.Append(padding, TextOrigin::kTemplate);
}

}  // namespace

absl::StatusOr<JinjaValue> PercentFormat(JinjaBudget& budget,
                                         const JinjaValue& format,
                                         const JinjaValue& arguments) {
  const bool is_tuple = arguments.is_sequence_kind(SequenceKind::kTuple);
  const std::span<const JinjaValue> values =
      is_tuple ? std::span<const JinjaValue>(arguments.sequence()->items)
               : std::span<const JinjaValue>(&arguments, 1);
  // What %(name)s could look into need not be used.
  const bool may_be_unused = !is_tuple && (arguments.dict() != nullptr ||
                                           arguments.sequence() != nullptr ||
                                           arguments.is_undefined());
  const MarkedText& text = format.text();
  const std::string_view bytes = text.bytes();
  RETURN_IF_ERROR(budget.ChargeText(bytes.size()));
  MarkedText out;
  size_t next_value = 0;
  size_t written = 0;
  while (true) {
    const size_t percent = bytes.find('%', written);
    out.AppendSlice(text, written, std::min(percent, bytes.size()));
    if (percent == std::string_view::npos) break;
    ASSIGN_OR_RETURN(const Conversion conversion,
                     ReadConversion(bytes, percent + 1));
    written = conversion.end;
    if (conversion.type == '%') {
      out.AppendSlice(text, written - 1, written);
      continue;
    }
    if (next_value == values.size()) {
      return absl::InvalidArgumentError("not enough values for a format");
    }
    const JinjaValue& value = values[next_value++];
    ASSIGN_OR_RETURN(const MarkedText field,
                     FormatValue(budget, conversion, value));
    RETURN_IF_ERROR(budget.CheckTextSize(out.size() + field.size()));
    RETURN_IF_ERROR(budget.ChargeText(field.size() + kMaxWidth));
    AppendPadded(conversion, field, out);
  }
  if (next_value != values.size() && !may_be_unused) {
    return absl::InvalidArgumentError("too many values for a format");
  }
  return JinjaValue::TextLike(format, std::move(out));
}

}  // namespace headrace
