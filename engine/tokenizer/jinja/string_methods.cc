// Methods of strings. Those of markup (the filters safe and escape) escape
// what they put in and give markup.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/methods.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/text_operations.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

JinjaValue ListAlike(const JinjaCall& call, std::vector<MarkedText> parts,
                     SequenceKind kind = SequenceKind::kList) {
  std::vector<JinjaValue> items;
  for (MarkedText& part : parts)
    items.push_back(JinjaValue::TextLike(call.self, std::move(part)));
  return JinjaValue::Sequence(kind, std::move(items));
}

// An argument that becomes part of the result.
absl::StatusOr<MarkedText> Inserted(const JinjaCall& call, size_t index,
                                    MarkedText otherwise) {
  const JinjaValue* value = call.Argument(index);
  if (value != nullptr && value->is_string() && call.self.is_markup()) {
    return EscapeHtml(*value);
  }
  return call.Text(index, std::move(otherwise));
}

// None or left out: nullopt.
absl::StatusOr<std::optional<MarkedText>> OptionalText(const JinjaCall& call,
                                                       size_t index) {
  if (call.ArgumentOrNone(index) == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(MarkedText text, call.Text(index, MarkedText()));
  return text;
}

std::optional<std::string_view> View(const std::optional<MarkedText>& text) {
  if (!text.has_value()) return std::nullopt;
  return text->bytes();
}

template <CaseChange kChange>
Result Case(JinjaCall& call) {
  return JinjaValue::TextLike(call.self, ChangeCase(call.self.text(), kChange));
}

template <StripSide kSide>
Result StripMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::optional<MarkedText> characters,
                   OptionalText(call, 0));
  return JinjaValue::TextLike(call.self,
                              Strip(call.self.text(), kSide, View(characters)));
}

Result SplitMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::optional<MarkedText> separator,
                   OptionalText(call, 0));
  ASSIGN_OR_RETURN(const int64_t most, call.Integer(1, -1));
  ASSIGN_OR_RETURN(
      std::vector<MarkedText> parts,
      Split(call.runtime.budget, call.self.text(), View(separator), most));
  return ListAlike(call, std::move(parts));
}

Result RSplitMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::optional<MarkedText> separator,
                   OptionalText(call, 0));
  ASSIGN_OR_RETURN(const int64_t most, call.Integer(1, -1));
  ASSIGN_OR_RETURN(std::vector<MarkedText> parts,
                   SplitFromRight(call.runtime.budget, call.self.text(),
                                  View(separator), most));
  return ListAlike(call, std::move(parts));
}

Result SplitLinesMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(
      std::vector<MarkedText> lines,
      SplitLines(call.runtime.budget, call.self.text(), call.Truth(0, false)));
  return ListAlike(call, std::move(lines));
}

// The three parts around the separator, for one that is at `cut`.
Result Partition(const JinjaCall& call, size_t cut, size_t length) {
  const MarkedText& text = call.self.text();
  return ListAlike(call,
                   {text.Slice(0, cut), text.Slice(cut, cut + length),
                    text.Slice(cut + length, text.size())},
                   SequenceKind::kTuple);
}

Result PartitionMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText separator, call.Text(0, MarkedText()));
  if (separator.empty()) {
    return absl::InvalidArgumentError("partition() with an empty separator");
  }
  const size_t cut = FindText(call.self.text().bytes(), separator.bytes(), 0);
  if (cut == std::string::npos) {
    return Partition(call, call.self.text().size(), 0);
  }
  return Partition(call, cut, separator.size());
}

Result RPartitionMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText separator, call.Text(0, MarkedText()));
  if (separator.empty()) {
    return absl::InvalidArgumentError("rpartition() with an empty separator");
  }
  const MarkedText& text = call.self.text();
  ASSIGN_OR_RETURN(const size_t cut, FindLast(call.runtime.budget, text.bytes(),
                                              separator.bytes(), text.size()));
  if (cut == std::string::npos) return Partition(call, 0, 0);
  return Partition(call, cut, separator.size());
}

Result ReplaceMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText old, call.Text(0, MarkedText()));
  ASSIGN_OR_RETURN(const MarkedText replacement,
                   Inserted(call, 1, MarkedText()));
  ASSIGN_OR_RETURN(const int64_t most, call.Integer(2, -1));
  ASSIGN_OR_RETURN(MarkedText text,
                   Replace(call.runtime.budget, call.self.text(), old.bytes(),
                           replacement, most));
  return JinjaValue::TextLike(call.self, std::move(text));
}

Result JoinMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items,
                   ItemsOf(call.runtime.budget, *call.Argument(0)));
  std::vector<MarkedText> parts;
  for (const JinjaValue& item : items) {
    if (!item.is_string()) return JinjaTypeError("join() needs strings", item);
    parts.push_back(call.self.is_markup() ? EscapeHtml(item) : item.text());
  }
  ASSIGN_OR_RETURN(MarkedText text,
                   Join(call.runtime.budget, call.self.text(), parts));
  return JinjaValue::TextLike(call.self, std::move(text));
}

template <Alignment kAlignment>
Result PadMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t width, call.Integer(0, 0));
  ASSIGN_OR_RETURN(const MarkedText fill,
                   Inserted(call, 1, MarkedText(" ", TextOrigin::kTemplate)));
  ASSIGN_OR_RETURN(MarkedText text, Pad(call.runtime.budget, call.self.text(),
                                        kAlignment, width, fill));
  return JinjaValue::TextLike(call.self, std::move(text));
}

Result ZeroFill(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t width, call.Integer(0, 0));
  const MarkedText& text = call.self.text();
  const std::string_view bytes = text.bytes();
  const size_t sign = bytes.starts_with('-') || bytes.starts_with('+') ? 1 : 0;
  ASSIGN_OR_RETURN(
      const MarkedText digits,
      Pad(call.runtime.budget, text.Slice(sign, text.size()), Alignment::kRight,
          std::max<int64_t>(width, 0) - static_cast<int64_t>(sign),
          MarkedText("0", TextOrigin::kTemplate)));
  MarkedText out = text.Slice(0, sign);
  out.Append(digits);
  return JinjaValue::TextLike(call.self, std::move(out));
}

// The part of the text between the character indices in arguments 1 and 2.
absl::StatusOr<TextRange> RangeOf(const JinjaCall& call) {
  const std::string_view bytes = call.self.text().bytes();
  const auto length = static_cast<int64_t>(CountCodePoints(bytes));
  const auto offset = [&](int64_t index) {
    if (index < 0) index = std::max<int64_t>(0, index + length);
    return OffsetOfCodePoint(bytes, static_cast<size_t>(index));
  };
  int64_t start = 0;
  int64_t stop = length;
  if (call.ArgumentOrNone(1) != nullptr) {
    ASSIGN_OR_RETURN(start, call.Integer(1, start));
  }
  if (call.ArgumentOrNone(2) != nullptr) {
    ASSIGN_OR_RETURN(stop, call.Integer(2, stop));
  }
  // A start behind the end finds nothing, not even an empty string.
  if (start > length) return TextRange{1, 0};
  return TextRange{offset(start), offset(stop)};
}

template <bool kAtStart>
Result AffixMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const TextRange range, RangeOf(call));
  const JinjaValue& affix = *call.Argument(0);
  std::vector<JinjaValue> affixes = {affix};
  if (affix.is_sequence_kind(SequenceKind::kTuple)) {
    affixes = affix.sequence()->items;
  }
  bool found = false;
  for (const JinjaValue& candidate : affixes) {
    if (!candidate.is_string()) {
      return JinjaTypeError(Concat(call.row.name, "() needs a string"),
                            candidate);
    }
    if (range.begin > range.end) continue;
    const std::string_view part =
        std::string_view(call.self.text().bytes())
            .substr(range.begin, range.end - range.begin);
    const std::string_view bytes = candidate.text().bytes();
    found =
        found || (kAtStart ? part.starts_with(bytes) : part.ends_with(bytes));
  }
  return JinjaValue::Bool(found);
}

template <bool kFirst>
absl::StatusOr<int64_t> FindIndex(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText needle, call.Text(0, MarkedText()));
  ASSIGN_OR_RETURN(const TextRange range, RangeOf(call));
  if (range.begin > range.end) return -1;
  const std::string_view bytes = call.self.text().bytes();
  const std::string_view part =
      bytes.substr(range.begin, range.end - range.begin);
  size_t found = 0;
  if (kFirst) {
    found = FindText(part, needle.bytes(), 0);
  } else {
    ASSIGN_OR_RETURN(found, FindLast(call.runtime.budget, part, needle.bytes(),
                                     part.size()));
  }
  if (found == std::string::npos) return -1;
  return static_cast<int64_t>(
      CountCodePoints(bytes.substr(0, range.begin + found)));
}

template <bool kFirst>
Result FindMethodOfString(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t index, FindIndex<kFirst>(call));
  return JinjaValue::Integer(index);
}

template <bool kFirst>
Result IndexMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const int64_t index, FindIndex<kFirst>(call));
  if (index < 0) {
    return absl::InvalidArgumentError(
        Concat(call.row.name, "() of a text that is not there"));
  }
  return JinjaValue::Integer(index);
}

Result CountMethod(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText needle, call.Text(0, MarkedText()));
  ASSIGN_OR_RETURN(const TextRange range, RangeOf(call));
  if (range.begin > range.end) return JinjaValue::Integer(0);
  const std::string_view part =
      std::string_view(call.self.text().bytes())
          .substr(range.begin, range.end - range.begin);
  if (needle.empty()) {
    return JinjaValue::Integer(static_cast<int64_t>(CountCodePoints(part)) + 1);
  }
  int64_t count = 0;
  for (size_t i = FindText(part, needle.bytes(), 0); i != std::string::npos;
       i = FindText(part, needle.bytes(), i + needle.size())) {
    ++count;
  }
  return JinjaValue::Integer(count);
}

Result RemovePrefix(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText prefix, call.Text(0, MarkedText()));
  const MarkedText& text = call.self.text();
  const bool has = text.bytes().starts_with(prefix.bytes());
  return JinjaValue::TextLike(call.self,
                              text.Slice(has ? prefix.size() : 0, text.size()));
}

Result RemoveSuffix(JinjaCall& call) {
  ASSIGN_OR_RETURN(const MarkedText suffix, call.Text(0, MarkedText()));
  const MarkedText& text = call.self.text();
  const bool has = text.bytes().ends_with(suffix.bytes());
  return JinjaValue::TextLike(
      call.self, text.Slice(0, text.size() - (has ? suffix.size() : 0)));
}

template <bool (*kHolds)(char32_t)>
Result AllCharacters(JinjaCall& call) {
  const std::string_view bytes = call.self.text().bytes();
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, i);
    if (!kHolds(c.value)) return JinjaValue::Bool(false);
    i += c.length;
  }
  return JinjaValue::Bool(!bytes.empty());
}

bool IsAlphanumeric(char32_t c) { return IsAlphabetic(c) || IsNumeric(c); }

// Some character has a case, and none has another than this one.
template <bool (*kHolds)(char32_t)>
Result AllCased(JinjaCall& call) {
  const std::string_view bytes = call.self.text().bytes();
  bool found = false;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, i);
    if (kHolds(c.value)) {
      found = true;
    } else if (IsCased(c.value)) {
      return JinjaValue::Bool(false);
    }
    i += c.length;
  }
  return JinjaValue::Bool(found);
}

constexpr auto kStringMethods = std::to_array<JinjaCallableRow>({
    {"capitalize", "", Case<CaseChange::kCapitalize>},
    {"center", "width fillchar?", PadMethod<Alignment::kCenter>},
    {"count", "sub start? end?", CountMethod},
    {"endswith", "suffix start? end?", AffixMethod<false>},
    {"find", "sub start? end?", FindMethodOfString<true>},
    {"index", "sub start? end?", IndexMethod<true>},
    {"isalnum", "", AllCharacters<IsAlphanumeric>},
    {"isalpha", "", AllCharacters<IsAlphabetic>},
    {"isdecimal", "", AllCharacters<IsDecimal>},
    {"isdigit", "", AllCharacters<IsDigit>},
    {"islower", "", AllCased<IsLowerCase>},
    {"isspace", "", AllCharacters<IsSpace>},
    {"isupper", "", AllCased<IsUpperCase>},
    {"join", "iterable", JoinMethod},
    {"ljust", "width fillchar?", PadMethod<Alignment::kLeft>},
    {"lower", "", Case<CaseChange::kLower>},
    {"lstrip", "chars?", StripMethod<StripSide::kLeft>},
    {"partition", "sep", PartitionMethod},
    {"removeprefix", "prefix", RemovePrefix},
    {"removesuffix", "suffix", RemoveSuffix},
    {"replace", "old new count?", ReplaceMethod},
    {"rfind", "sub start? end?", FindMethodOfString<false>},
    {"rindex", "sub start? end?", IndexMethod<false>},
    {"rjust", "width fillchar?", PadMethod<Alignment::kRight>},
    {"rpartition", "sep", RPartitionMethod},
    {"rsplit", "sep? maxsplit?", RSplitMethod},
    {"rstrip", "chars?", StripMethod<StripSide::kRight>},
    {"split", "sep? maxsplit?", SplitMethod},
    {"splitlines", "keepends?", SplitLinesMethod},
    {"startswith", "prefix start? end?", AffixMethod<true>},
    {"strip", "chars?", StripMethod<StripSide::kBoth>},
    {"swapcase", "", Case<CaseChange::kSwap>},
    {"title", "", Case<CaseChange::kTitle>},
    {"upper", "", Case<CaseChange::kUpper>},
    {"zfill", "width", ZeroFill},
    {"casefold", "", nullptr},
    {"encode", "", nullptr},
    {"expandtabs", "", nullptr},
    {"format", "", nullptr},
    {"format_map", "", nullptr},
    {"isascii", "", nullptr},
    {"isidentifier", "", nullptr},
    {"isnumeric", "", nullptr},
    {"isprintable", "", nullptr},
    {"istitle", "", nullptr},
    {"maketrans", "", nullptr},
    {"translate", "", nullptr},
});

}  // namespace

std::span<const JinjaCallableRow> StringMethods() { return kStringMethods; }

}  // namespace headrace
