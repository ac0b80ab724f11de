// Characters as Python's str sees them: code points, white space, case. The
// bytes may be anything: a byte that is not part of valid UTF-8 counts as one
// character and survives every operation.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_UNICODE_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

// One character of a text. A byte that is not valid UTF-8 has the code point
// kRawByte + byte, which no valid text can contain (as Python's
// "surrogateescape").
struct CodePoint {
  char32_t value;
  size_t length;  // bytes
};
inline constexpr char32_t kRawByte = 0xDC00;
bool IsRawByte(char32_t c);

// The character that starts at `offset`, which is less than text.size().
CodePoint CodePointAt(std::string_view text, size_t offset);
// The character that ends at `offset`, which is not 0.
CodePoint CodePointBefore(std::string_view text, size_t offset);
void AppendCodePoint(char32_t value, std::string& text);

size_t CountCodePoints(std::string_view text);
// Byte offset of the character with this index; text.size() when it is past
// the end.
size_t OffsetOfCodePoint(std::string_view text, size_t index);

// str.isspace and the set that str.strip removes.
bool IsSpace(char32_t c);
// The borders of str.splitlines.
bool IsLineBreak(char32_t c);
bool IsAlphabetic(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsUpperCase(char32_t c);
bool IsLowerCase(char32_t c);
bool IsTitleCase(char32_t c);
// One of the three.
bool IsCased(char32_t c);
// Shown as it is by repr().
bool IsPrintable(char32_t c);

// Full case mappings of one character: up to three characters.
// Source: Unicode 15, SpecialCasing.txt, unconditional mappings.
std::u32string UpperCase(char32_t c);
std::u32string TitleCase(char32_t c);
// `offset` is where the character starts in `text`: a capital sigma at the end
// of a word becomes a final one.
std::u32string LowerCase(std::string_view text, size_t offset);

// The text without white space at the two ends: [begin, end).
struct TextRange {
  size_t begin;
  size_t end;
};
TextRange StripLeft(std::string_view text, TextRange range);
TextRange StripRight(std::string_view text, TextRange range);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_UNICODE_H_
