// Filters that give text.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/json_text.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/percent_format.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"
#include "engine/tokenizer/jinja/text_operations.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

using Result = absl::StatusOr<JinjaValue>;

// The filtered value as a string; markup stays markup.
Result SoftString(const JinjaCall& call) {
  if (call.self.is_string()) return call.self;
  ASSIGN_OR_RETURN(MarkedText text, ToText(call.runtime.budget, call.self));
  return JinjaValue::Text(std::move(text));
}

template <CaseChange kChange>
Result Case(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  return JinjaValue::TextLike(string, ChangeCase(string.text(), kChange));
}

// What jinja2 cuts words at. Python's str.title() has other words.
bool EndsWord(char32_t c) {
  return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

Result Title(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  const MarkedText& text = string.text();
  const std::string_view bytes = text.bytes();
  MarkedText out;
  for (size_t begin = 0; begin < bytes.size();) {
    const CodePoint first = CodePointAt(bytes, begin);
    size_t end = begin + first.length;
    out.Append(ChangeCase(text.Slice(begin, end), CaseChange::kUpper));
    if (!EndsWord(first.value)) {
      begin = end;
      while (end < bytes.size()) {
        const CodePoint c = CodePointAt(bytes, end);
        if (EndsWord(c.value)) break;
        end += c.length;
      }
      out.Append(ChangeCase(text.Slice(begin, end), CaseChange::kLower));
    }
    begin = end;
  }
  return JinjaValue::Text(std::move(out));
}

Result Trim(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  if (call.ArgumentOrNone(0) == nullptr) {
    return JinjaValue::TextLike(
        string, Strip(string.text(), StripSide::kBoth, std::nullopt));
  }
  ASSIGN_OR_RETURN(const MarkedText characters, call.Text(0, MarkedText()));
  return JinjaValue::TextLike(string,
                              Strip(string.text(), StripSide::kBoth,
                                    std::string_view(characters.bytes())));
}

Result Center(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  ASSIGN_OR_RETURN(const int64_t width, call.Integer(0, 80));
  ASSIGN_OR_RETURN(MarkedText text,
                   Pad(call.runtime.budget, string.text(), Alignment::kCenter,
                       width, MarkedText(" ", TextOrigin::kTemplate)));
  return JinjaValue::TextLike(string, std::move(text));
}

Result ReplaceFilter(JinjaCall& call) {
  const JinjaBudget& budget = call.runtime.budget;
  ASSIGN_OR_RETURN(const MarkedText text, ToText(budget, call.self));
  ASSIGN_OR_RETURN(const MarkedText old, ToText(budget, *call.Argument(0)));
  ASSIGN_OR_RETURN(const MarkedText replacement,
                   ToText(budget, *call.Argument(1)));
  int64_t most = -1;
  if (call.ArgumentOrNone(2) != nullptr) {
    ASSIGN_OR_RETURN(most, call.Integer(2, -1));
  }
  ASSIGN_OR_RETURN(MarkedText out,
                   Replace(budget, text, old.bytes(), replacement, most));
  return JinjaValue::Text(std::move(out));
}

Result JoinFilter(JinjaCall& call) {
  JinjaBudget& budget = call.runtime.budget;
  MarkedText separator;
  if (call.Argument(0) != nullptr) {
    ASSIGN_OR_RETURN(separator, ToText(budget, *call.Argument(0)));
  }
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> path,
                   ToAttributePath(call.Argument(1)));
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items, ItemsOf(budget, call.self));
  std::vector<MarkedText> parts;
  size_t size = 0;
  for (JinjaValue& item : items) {
    ASSIGN_OR_RETURN(const JinjaValue value,
                     FollowPath(budget, path, std::move(item), nullptr));
    ASSIGN_OR_RETURN(MarkedText text, ToText(budget, value));
    size += text.size();
    RETURN_IF_ERROR(budget.CheckTextSize(size));
    parts.push_back(std::move(text));
  }
  ASSIGN_OR_RETURN(MarkedText out, Join(budget, separator, parts));
  return JinjaValue::Text(std::move(out));
}

Result IndentFilter(JinjaCall& call) {
  if (!call.self.is_string()) {
    return JinjaTypeError("indent needs a string", call.self);
  }
  IndentStyle style;
  const JinjaValue* width = call.Argument(0);
  if (width != nullptr && width->is_string()) {
    style.indention = width->text();
  } else {
    ASSIGN_OR_RETURN(const int64_t spaces, call.Integer(0, 4));
    ASSIGN_OR_RETURN(style.indention,
                     Pad(call.runtime.budget, MarkedText(), Alignment::kLeft,
                         spaces, MarkedText(" ", TextOrigin::kTemplate)));
  }
  style.first = call.Truth(1, false);
  style.blank = call.Truth(2, false);
  ASSIGN_OR_RETURN(MarkedText text,
                   Indent(call.runtime.budget, call.self.text(), style));
  return JinjaValue::TextLike(call.self, std::move(text));
}

Result Truncate(JinjaCall& call) {
  if (call.self.is_undefined()) return call.self;
  if (!call.self.is_string()) {
    return JinjaTypeError("truncate needs a string", call.self);
  }
  ASSIGN_OR_RETURN(const int64_t length, call.Integer(0, 255));
  ASSIGN_OR_RETURN(const MarkedText end,
                   call.Text(2, MarkedText("...", TextOrigin::kTemplate)));
  int64_t leeway = 5;
  if (call.ArgumentOrNone(3) != nullptr) {
    ASSIGN_OR_RETURN(leeway, call.Integer(3, leeway));
  }
  const MarkedText& text = call.self.text();
  const auto end_length = static_cast<int64_t>(CountCodePoints(end.bytes()));
  if (length < end_length || leeway < 0) {
    return absl::InvalidArgumentError(Concat(
        "truncate to ", length, " characters is less than its end needs"));
  }
  const auto size = static_cast<int64_t>(CountCodePoints(text.bytes()));
  if (size - leeway <= length) return call.self;
  size_t cut =
      OffsetOfCodePoint(text.bytes(), static_cast<size_t>(length - end_length));
  if (!call.Truth(1, false)) {
    const size_t space = text.bytes().substr(0, cut).rfind(' ');
    if (space != std::string::npos) cut = space;
  }
  MarkedText out = text.Slice(0, cut);
  out.Append(end);
  return JinjaValue::Text(std::move(out));
}

Result WordCount(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  const std::string_view bytes = string.text().bytes();
  int64_t words = 0;
  bool in_word = false;
  for (size_t i = 0; i < bytes.size();) {
    const CodePoint c = CodePointAt(bytes, i);
    const bool is_word =
        IsAlphabetic(c.value) || IsNumeric(c.value) || c.value == '_';
    if (is_word && !in_word) ++words;
    in_word = is_word;
    i += c.length;
  }
  return JinjaValue::Integer(words);
}

Result Format(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  return PercentFormat(call.runtime.budget, string,
                       JinjaValue::Tuple(std::move(call.rest.positional)));
}

Result Safe(JinjaCall& call) {
  ASSIGN_OR_RETURN(MarkedText text, ToText(call.runtime.budget, call.self));
  return JinjaValue::Markup(std::move(text));
}

Result Escape(JinjaCall& call) {
  ASSIGN_OR_RETURN(const JinjaValue string, SoftString(call));
  return JinjaValue::Markup(EscapeHtml(string));
}

Result ForceEscape(JinjaCall& call) {
  ASSIGN_OR_RETURN(MarkedText text, ToText(call.runtime.budget, call.self));
  return JinjaValue::Markup(EscapeHtml(JinjaValue::Text(std::move(text))));
}

absl::Status ReadSeparators(const JinjaValue& pair, JsonStyle& style) {
  const JinjaSequence* sequence = pair.sequence();
  if (sequence == nullptr || sequence->items.size() != 2 ||
      !sequence->items[0].is_string() || !sequence->items[1].is_string()) {
    return JinjaTypeError("separators are two strings", pair);
  }
  style.item_separator = sequence->items[0].text().bytes();
  style.key_separator = sequence->items[1].text().bytes();
  return absl::OkStatus();
}

// As transformers defines it (utils/chat_template_utils.py, 4.57): json.dumps
// without HTML escaping.
Result ToJsonFilter(JinjaCall& call) {
  JsonStyle style;
  style.ensure_ascii = call.Truth(0, false);
  if (const JinjaValue* indent = call.ArgumentOrNone(1)) {
    style.item_separator = ",";
    if (indent->is_string()) {
      style.indent = indent->text().bytes();
    } else {
      ASSIGN_OR_RETURN(const int64_t spaces, call.Integer(1, 0));
      ASSIGN_OR_RETURN(const MarkedText indention,
                       Pad(call.runtime.budget, MarkedText(), Alignment::kLeft,
                           spaces, MarkedText(" ", TextOrigin::kTemplate)));
      style.indent = indention.bytes();
    }
  }
  if (const JinjaValue* separators = call.ArgumentOrNone(2)) {
    RETURN_IF_ERROR(ReadSeparators(*separators, style));
  }
  style.sort_keys = call.Truth(3, false);
  ASSIGN_OR_RETURN(std::string json,
                   ToJson(call.runtime.budget, call.self, style));
  return JinjaValue::Text(MarkedText(std::move(json), call.self.origin()));
}

constexpr auto kTextFilters = std::to_array<JinjaCallableRow>({
    {"capitalize", "", Case<CaseChange::kCapitalize>},
    {"center", "width?", Center},
    {"e", "", Escape},
    {"escape", "", Escape},
    {"forceescape", "", ForceEscape},
    {"format", "*", Format},
    {"indent", "width? first? blank?", IndentFilter},
    {"join", "d? attribute?", JoinFilter},
    {"lower", "", Case<CaseChange::kLower>},
    {"replace", "old new count?", ReplaceFilter},
    {"safe", "", Safe},
    {"string", "", [](JinjaCall& call) { return SoftString(call); }},
    {"title", "", Title},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ToJsonFilter},
    {"trim", "chars?", Trim},
    {"truncate", "length? killwords? end? leeway?", Truncate},
    {"upper", "", Case<CaseChange::kUpper>},
    {"wordcount", "", WordCount},
});

}  // namespace

std::span<const JinjaCallableRow> TextFilters() { return kTextFilters; }

}  // namespace headrace
