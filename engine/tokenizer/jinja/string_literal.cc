#include "engine/tokenizer/jinja/string_literal.h"

#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

// What a single letter after the backslash stands for.
std::optional<std::string_view> SimpleEscape(char c) {
  switch (c) {
    case '\n':
      return "";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'n':
      return "\n";
    case 'r':
      return "\r";
    case 't':
      return "\t";
    case 'v':
      return "\v";
    default:
      return std::nullopt;
  }
}

// Reads exactly `count` hexadecimal digits at `i`.
absl::StatusOr<char32_t> ReadHex(std::string_view body, size_t i,
                                 size_t count) {
  uint32_t value = 0;
  for (size_t end = i + count; i < end; ++i) {
    if (i >= body.size() || !absl::ascii_isxdigit(body[i])) {
      return absl::InvalidArgumentError("an escape in a string is cut short");
    }
    const char c = absl::ascii_tolower(body[i]);
    value = value * 16 + static_cast<uint32_t>(
                             absl::ascii_isdigit(c) ? c - '0' : c - 'a' + 10);
  }
  if ((value >= 0xD800 && value < 0xE000) || value > 0x10FFFF) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "U+%04X in a string is not a character of its own", value));
  }
  return static_cast<char32_t>(value);
}

size_t HexDigits(char c) {
  switch (c) {
    case 'x':
      return 2;
    case 'u':
      return 4;
    case 'U':
      return 8;
    default:
      return 0;
  }
}

// Up to three octal digits at `i`, which moves behind them.
char32_t ReadOctal(std::string_view body, size_t& i) {
  char32_t value = 0;
  for (size_t end = i + 3; i < end && i < body.size(); ++i) {
    if (body[i] < '0' || body[i] > '7') break;
    value = value * 8 + static_cast<char32_t>(body[i] - '0');
  }
  return value;
}

// jinja2 writes such characters as escapes before it resolves escapes, so a
// backslash before one shows that escape.
std::string EscapedForm(char32_t c) {
  const auto value = static_cast<uint32_t>(c);
  if (value <= 0xFF) return absl::StrFormat("x%02x", value);
  if (value <= 0xFFFF) return absl::StrFormat("u%04x", value);
  return absl::StrFormat("U%08x", value);
}

}  // namespace

absl::StatusOr<std::string> ParseStringLiteral(std::string_view body) {
  std::string text;
  size_t i = 0;
  while (i < body.size()) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      text.push_back(body[i++]);
      continue;
    }
    const char c = body[++i];
    if (const auto simple = SimpleEscape(c)) {
      text.append(*simple);
      ++i;
    } else if (const size_t digits = HexDigits(c); digits > 0) {
      ASSIGN_OR_RETURN(const char32_t value, ReadHex(body, i + 1, digits));
      AppendCodePoint(value, text);
      i += 1 + digits;
    } else if (c >= '0' && c <= '7') {
      AppendCodePoint(ReadOctal(body, i), text);
    } else if (c == 'N') {
      return absl::InvalidArgumentError(
          "\\N{…} in a string is not supported; write the character itself");
    } else {
      text.push_back('\\');
      const CodePoint next = CodePointAt(body, i);
      if (next.value < 0x80 || IsRawByte(next.value)) {
        text.append(body.substr(i, next.length));
      } else {
        text.append(EscapedForm(next.value));
      }
      i += next.length;
    }
  }
  return text;
}

}  // namespace headrace
