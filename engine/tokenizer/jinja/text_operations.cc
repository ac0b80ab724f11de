#include "engine/tokenizer/jinja/text_operations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

std::u32string ChangeOne(std::string_view text, size_t offset, CaseChange how,
                         bool starts_word) {
  const char32_t c = CodePointAt(text, offset).value;
  switch (how) {
    case CaseChange::kUpper:
      return UpperCase(c);
    case CaseChange::kLower:
      return LowerCase(text, offset);
    case CaseChange::kTitle:
    case CaseChange::kCapitalize:
      return starts_word ? TitleCase(c) : LowerCase(text, offset);
    case CaseChange::kSwap:
      if (IsUpperCase(c)) return LowerCase(text, offset);
      return IsLowerCase(c) ? UpperCase(c) : std::u32string(1, c);
  }
  return {};
}

absl::Status EmptySeparator() {
  return absl::InvalidArgumentError("split() with an empty separator");
}

absl::StatusOr<std::vector<MarkedText>> SplitAtSpace(JinjaBudget& budget,
                                                     const MarkedText& text,
                                                     int64_t most) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  TextRange rest = StripLeft(bytes, {0, bytes.size()});
  while (rest.begin < rest.end) {
    RETURN_IF_ERROR(budget.ChargeParts(1));
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text.Slice(rest.begin, rest.end));
      break;
    }
    size_t end = rest.begin;
    while (end < rest.end) {
      const CodePoint c = CodePointAt(bytes, end);
      if (IsSpace(c.value)) break;
      end += c.length;
    }
    parts.push_back(text.Slice(rest.begin, end));
    rest = StripLeft(bytes, {end, rest.end});
  }
  return parts;
}

absl::StatusOr<std::vector<MarkedText>> SplitAtSpaceFromRight(
    JinjaBudget& budget, const MarkedText& text, int64_t most) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  TextRange rest = StripRight(bytes, {0, bytes.size()});
  while (rest.begin < rest.end) {
    RETURN_IF_ERROR(budget.ChargeParts(1));
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text.Slice(rest.begin, rest.end));
      break;
    }
    size_t begin = rest.end;
    while (begin > rest.begin) {
      const CodePoint c = CodePointBefore(bytes, begin);
      if (IsSpace(c.value)) break;
      begin -= c.length;
    }
    parts.push_back(text.Slice(begin, rest.end));
    rest = StripRight(bytes, {rest.begin, begin});
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

MarkedText ChangeCase(const MarkedText& text, CaseChange change) {
  const std::string_view bytes = text.bytes();
  MarkedText out;
  std::string character;
  bool starts_word = true;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, i);
    character.clear();
    for (char32_t mapped : ChangeOne(bytes, i, change, starts_word)) {
      AppendCodePoint(mapped, character);
    }
    out.Append(character, text.RunAt(i).origin);
    starts_word = change == CaseChange::kTitle && !IsCased(c.value);
    i += c.length;
  }
  return out;
}

MarkedText Strip(const MarkedText& text, StripSide side,
                 std::optional<std::string_view> characters) {
  absl::flat_hash_set<char32_t> set;
  if (characters.has_value()) {
    for (size_t i = 0; i < characters->size();) {
      const CodePoint c = CodePointAt(*characters, i);
      set.insert(c.value);
      i += c.length;
    }
  }
  const auto goes = [&](char32_t c) {
    return characters.has_value() ? set.contains(c) : IsSpace(c);
  };
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != StripSide::kRight && begin < end) {
    const CodePoint c = CodePointAt(bytes, begin);
    if (!goes(c.value)) break;
    begin += c.length;
  }
  while (side != StripSide::kLeft && end > begin) {
    const CodePoint c = CodePointBefore(bytes, end);
    if (!goes(c.value)) break;
    end -= c.length;
  }
  return text.Slice(begin, end);
}

absl::StatusOr<std::vector<MarkedText>> Split(
    JinjaBudget& budget, const MarkedText& text,
    std::optional<std::string_view> separator, int64_t most) {
  if (!separator.has_value()) return SplitAtSpace(budget, text, most);
  if (separator->empty()) return EmptySeparator();
  std::vector<MarkedText> parts;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    RETURN_IF_ERROR(budget.ChargeParts(1));
    const size_t cut = FindText(text.bytes(), *separator, begin);
    if (cut == std::string::npos) break;
    parts.push_back(text.Slice(begin, cut));
    begin = cut + separator->size();
  }
  parts.push_back(text.Slice(begin, text.size()));
  return parts;
}

absl::StatusOr<std::vector<MarkedText>> SplitFromRight(
    JinjaBudget& budget, const MarkedText& text,
    std::optional<std::string_view> separator, int64_t most) {
  if (!separator.has_value()) {
    return SplitAtSpaceFromRight(budget, text, most);
  }
  if (separator->empty()) return EmptySeparator();
  std::vector<MarkedText> parts;
  size_t end = text.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    RETURN_IF_ERROR(budget.ChargeParts(1));
    ASSIGN_OR_RETURN(const size_t cut,
                     FindLast(budget, text.bytes(), *separator, end));
    if (cut == std::string::npos) break;
    parts.push_back(text.Slice(cut + separator->size(), end));
    end = cut;
  }
  parts.push_back(text.Slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

absl::StatusOr<std::vector<MarkedText>> SplitLines(JinjaBudget& budget,
                                                   const MarkedText& text,
                                                   bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> lines;
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, i);
    size_t next = i + c.length;
    if (IsLineBreak(c.value)) {
      RETURN_IF_ERROR(budget.ChargeParts(1));
      if (c.value == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.Slice(begin, keep_ends ? next : i));
      begin = next;
    }
    i = next;
  }
  if (begin < bytes.size()) lines.push_back(text.Slice(begin, bytes.size()));
  return lines;
}

absl::StatusOr<MarkedText> Replace(const JinjaBudget& budget,
                                   const MarkedText& text, std::string_view old,
                                   const MarkedText& replacement,
                                   int64_t most) {
  const std::string_view bytes = text.bytes();
  MarkedText out;
  size_t begin = 0;
  for (int64_t count = 0; most < 0 || count < most; ++count) {
    size_t cut = begin;
    if (!old.empty()) {
      cut = FindText(bytes, old, begin);
    } else if (count > 0) {
      cut = begin < bytes.size() ? begin + CodePointAt(bytes, begin).length
                                 : std::string::npos;
    }
    if (cut == std::string::npos) break;
    out.AppendSlice(text, begin, cut);
    out.Append(replacement);
    RETURN_IF_ERROR(budget.CheckTextSize(out.size()));
    begin = cut + old.size();
  }
  out.AppendSlice(text, begin, text.size());
  return out;
}

absl::StatusOr<MarkedText> Join(const JinjaBudget& budget,
                                const MarkedText& separator,
                                std::span<const MarkedText> parts) {
  MarkedText out;
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(
        budget.CheckTextSize(out.size() + separator.size() + parts[i].size()));
    if (i > 0) out.Append(separator);
    out.Append(parts[i]);
  }
  return out;
}

absl::StatusOr<MarkedText> Pad(const JinjaBudget& budget,
                               const MarkedText& text, Alignment alignment,
                               int64_t width, const MarkedText& fill) {
  const auto length = static_cast<int64_t>(CountCodePoints(text.bytes()));
  if (width <= length) return text;
  if (CountCodePoints(fill.bytes()) != 1) {
    return absl::InvalidArgumentError("the fill is not one character");
  }
  // The limit holds for characters too: none has less than a byte.
  RETURN_IF_ERROR(budget.CheckTextSize(static_cast<size_t>(width)));
  const int64_t padding = width - length;
  int64_t left = 0;
  switch (alignment) {
    case Alignment::kLeft:
      break;
    case Alignment::kCenter:
      left = padding / 2 + (padding & width & 1);
      break;
    case Alignment::kRight:
      left = padding;
      break;
  }
  MarkedText out;
  for (int64_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(text);
  for (int64_t i = left; i < padding; ++i) out.Append(fill);
  return out;
}

absl::StatusOr<MarkedText> Indent(JinjaBudget& budget, const MarkedText& text,
                                  const IndentStyle& style) {
  // A line break at the very end makes one more, empty, line.
  MarkedText with_end = text;
  with_end.Append("\n", TextOrigin::kTemplate);
  ASSIGN_OR_RETURN(const std::vector<MarkedText> lines,
                   SplitLines(budget, with_end, /*keep_ends=*/false));
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n", TextOrigin::kTemplate);
    const bool indents =
        i == 0 ? style.first : (style.blank || !lines[i].empty());
    if (indents) out.Append(style.indention);
    out.Append(lines[i]);
    RETURN_IF_ERROR(budget.CheckTextSize(out.size()));
  }
  return out;
}

absl::StatusOr<size_t> FindLast(JinjaBudget& budget, std::string_view text,
                                std::string_view needle, size_t end) {
  if (needle.size() > end) return std::string::npos;
  const size_t starts = end - needle.size() + 1;
  // At worst every start compares the whole needle.
  RETURN_IF_ERROR(budget.ChargeText(starts + starts / 256 * needle.size()));
  return text.substr(0, end).rfind(needle);
}

}  // namespace headrace
