#include "engine/tokenizer/jinja/unicode.h"

#include <utf8proc.h>
#include <algorithm>
#include <array>
#include <span>

#include "engine/tokenizer/jinja/case_mappings.h"

namespace headrace {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

struct CodePointRange {
  char32_t first;
  char32_t last;
};

bool IsIn(std::span<const CodePointRange> ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [c](CodePointRange range) {
    return c >= range.first && c <= range.last;
  });
}

utf8proc_category_t CategoryOf(char32_t c) {
  if (c >= 0xD800 && c < 0xE000) return UTF8PROC_CATEGORY_CS;
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsContinuation(char byte) { return (byte & 0xC0) == 0x80; }

char32_t RawByte(char byte) {
  return kRawByte + static_cast<unsigned char>(byte);
}

// Characters that case rules look through (Unicode 15, D136).
bool IsCaseIgnorable(char32_t c) {
  static constexpr std::array<char32_t, 17> kMidWord = {
      0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  if (std::find(kMidWord.begin(), kMidWord.end(), c) != kMidWord.end()) {
    return true;
  }
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_SK;
}

// Unicode 15, table 3-17, Final_Sigma.
bool IsFinalSigma(std::string_view text, size_t offset) {
  size_t before = offset;
  CodePoint c = {0, 0};
  do {
    if (before == 0) return false;
    c = CodePointBefore(text, before);
    before -= c.length;
  } while (IsCaseIgnorable(c.value));
  if (!IsCased(c.value)) return false;
  size_t after = offset + CodePointAt(text, offset).length;
  while (after < text.size()) {
    c = CodePointAt(text, after);
    if (!IsCaseIgnorable(c.value)) return !IsCased(c.value);
    after += c.length;
  }
  return true;
}

}  // namespace

bool IsRawByte(char32_t c) {
  return c >= kRawByte + 0x80 && c <= kRawByte + 0xFF;
}

CodePoint CodePointAt(std::string_view text, size_t offset) {
  const char lead = text[offset];
  if ((lead & 0x80) == 0) return {static_cast<char32_t>(lead), 1};
  utf8proc_int32_t value = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset,
      static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - offset, 4)),
      &value);
  if (length <= 0) return {RawByte(lead), 1};
  return {static_cast<char32_t>(value), static_cast<size_t>(length)};
}

CodePoint CodePointBefore(std::string_view text, size_t offset) {
  size_t start = offset - 1;
  while (start > 0 && offset - start < 4 && IsContinuation(text[start])) {
    --start;
  }
  const CodePoint c = CodePointAt(text, start);
  if (start + c.length == offset) return c;
  return {RawByte(text[offset - 1]), 1};
}

void AppendCodePoint(char32_t value, std::string& text) {
  if (IsRawByte(value)) {
    text.push_back(static_cast<char>(value - kRawByte));
    return;
  }
  std::array<utf8proc_uint8_t, 4> bytes;
  const utf8proc_ssize_t length =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()),
              static_cast<size_t>(length));
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) {
    i += CodePointAt(text, i).length;
  }
  return count;
}

size_t OffsetOfCodePoint(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) {
    offset += CodePointAt(text, offset).length;
  }
  return offset;
}

bool IsSpace(char32_t c) {
  static constexpr std::array<CodePointRange, 10> kRanges = {
      {{0x09, 0x0D},
       {0x1C, 0x20},
       {0x85, 0x85},
       {0xA0, 0xA0},
       {0x1680, 0x1680},
       {0x2000, 0x200A},
       {0x2028, 0x2029},
       {0x202F, 0x202F},
       {0x205F, 0x205F},
       {0x3000, 0x3000}}};
  return IsIn(kRanges, c);
}

bool IsLineBreak(char32_t c) {
  static constexpr std::array<CodePointRange, 4> kRanges = {
      {{0x0A, 0x0D}, {0x1C, 0x1E}, {0x85, 0x85}, {0x2028, 0x2029}}};
  return IsIn(kRanges, c);
}

bool IsAlphabetic(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigit(char32_t c) {
  // Numeric_Type=Digit of UnicodeData.txt: superscripts, circled digits, …
  static constexpr std::array<CodePointRange, 20> kRanges = {
      {{0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},
       {0x19DA, 0x19DA},   {0x2070, 0x2070},   {0x2074, 0x2079},
       {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},
       {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
       {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
       {0x278A, 0x2792},   {0x10A40, 0x10A43}, {0x10E60, 0x10E68},
       {0x11052, 0x1105A}, {0x1F100, 0x1F10A}}};
  return IsDecimal(c) || IsIn(kRanges, c);
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsUpperCase(char32_t c) {
  // Other_Uppercase of PropList.txt.
  static constexpr std::array<CodePointRange, 5> kRanges = {
      {{0x2160, 0x216F},
       {0x24B6, 0x24CF},
       {0x1F130, 0x1F149},
       {0x1F150, 0x1F169},
       {0x1F170, 0x1F189}}};
  return CategoryOf(c) == UTF8PROC_CATEGORY_LU || IsIn(kRanges, c);
}

bool IsLowerCase(char32_t c) {
  // Other_Lowercase of PropList.txt.
  static constexpr std::array<CodePointRange, 24> kRanges = {
      {{0x00AA, 0x00AA},   {0x00BA, 0x00BA},   {0x02B0, 0x02B8},
       {0x02C0, 0x02C1},   {0x02E0, 0x02E4},   {0x0345, 0x0345},
       {0x037A, 0x037A},   {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
       {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
       {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},
       {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},
       {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0x10780, 0x10780},
       {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}}};
  return CategoryOf(c) == UTF8PROC_CATEGORY_LL || IsIn(kRanges, c);
}

bool IsTitleCase(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_LT; }

bool IsCased(char32_t c) {
  return IsUpperCase(c) || IsLowerCase(c) || IsTitleCase(c);
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t category = CategoryOf(c);
  return category != UTF8PROC_CATEGORY_CN &&
         (category < UTF8PROC_CATEGORY_ZS || category > UTF8PROC_CATEGORY_CO);
}

std::u32string UpperCase(char32_t c) {
  if (const SpecialCase* special = FindSpecialCase(c)) return special->upper;
  return {static_cast<char32_t>(
      utf8proc_toupper(static_cast<utf8proc_int32_t>(c)))};
}

std::u32string TitleCase(char32_t c) {
  if (const SpecialCase* special = FindSpecialCase(c)) return special->title;
  return {static_cast<char32_t>(
      utf8proc_totitle(static_cast<utf8proc_int32_t>(c)))};
}

std::u32string LowerCase(std::string_view text, size_t offset) {
  const char32_t c = CodePointAt(text, offset).value;
  if (c == kCapitalSigma) {
    return {IsFinalSigma(text, offset) ? kFinalSigma : kSmallSigma};
  }
  if (c == 0x130) return {0x69, 0x307};  // İ, the only one that grows
  return {static_cast<char32_t>(
      utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

TextRange StripLeft(std::string_view text, TextRange range) {
  while (range.begin < range.end) {
    const CodePoint c = CodePointAt(text, range.begin);
    if (!IsSpace(c.value)) break;
    range.begin += c.length;
  }
  return range;
}

TextRange StripRight(std::string_view text, TextRange range) {
  while (range.end > range.begin) {
    const CodePoint c = CodePointBefore(text, range.end);
    if (!IsSpace(c.value)) break;
    range.end -= c.length;
  }
  return range;
}

}  // namespace headrace
