#include "engine/tokenizer/jinja/json_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::string_view ShortEscape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return "";
  }
}

void AppendUnicodeEscape(char32_t c, std::string& out) {
  auto value = static_cast<uint32_t>(c);
  if (value > 0xFFFF) {
    value -= 0x10000;
    absl::StrAppendFormat(&out, "\\u%04x", 0xD800 + (value >> 10));
    value = 0xDC00 + (value & 0x3FF);
  }
  absl::StrAppendFormat(&out, "\\u%04x", value);
}

void AppendJsonString(std::string_view text, bool ensure_ascii,
                      std::string& out) {
  out.push_back('"');
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = CodePointAt(text, i);
    const std::string_view escape = ShortEscape(c.value);
    if (!escape.empty()) {
      out.append(escape);
    } else if (c.value < 0x20 || (ensure_ascii && c.value > 0x7E)) {
      AppendUnicodeEscape(c.value, out);
    } else {
      out.append(text.substr(i, c.length));
    }
    i += c.length;
  }
  out.push_back('"');
}

std::string JsonNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return FormatFloat(value);
}

class JsonWriter {
 public:
  JsonWriter(const JinjaBudget& budget, const JsonStyle& style)
      : budget_(budget), style_(style) {}

  std::string& text() { return text_; }

  absl::Status Write(const JinjaValue& value, int level) {
    RETURN_IF_ERROR(budget_.CheckTextSize(text_.size() + value.text().size()));
    if (value.is_string()) {
      AppendJsonString(value.text().bytes(), style_.ensure_ascii, text_);
    } else if (value.dict() != nullptr) {
      return WriteDict(*value.dict(), level);
    } else if (value.is_sequence_kind(SequenceKind::kList) ||
               value.is_sequence_kind(SequenceKind::kTuple) ||
               value.is_sequence_kind(SequenceKind::kGroup)) {
      return WriteList(*value.sequence(), level);
    } else {
      ASSIGN_OR_RETURN(const std::string scalar, Scalar(value));
      text_.append(scalar);
    }
    return absl::OkStatus();
  }

 private:
  // The text of None, a bool or a number, as a value or inside a key's quotes.
  static absl::StatusOr<std::string> Scalar(const JinjaValue& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.integer() == 1 ? "true" : "false";
    if (value.is_integer()) return Concat(value.integer());
    if (value.is_float()) return JsonNumber(value.number());
    return absl::InvalidArgumentError(Concat(
        "a value of type ", value.type_name(), " cannot be written as JSON"));
  }

  absl::Status NewLine(int level) {
    if (!style_.indent.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(budget_.CheckTextSize(
        text_.size() + static_cast<size_t>(level) * style_.indent->size()));
    text_.push_back('\n');
    for (int i = 0; i < level; ++i) text_.append(*style_.indent);
    return absl::OkStatus();
  }

  absl::Status WriteList(const JinjaSequence& list, int level) {
    text_.push_back('[');
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) text_.append(style_.item_separator);
      RETURN_IF_ERROR(NewLine(level + 1));
      RETURN_IF_ERROR(Write(list.items[i], level + 1));
    }
    if (!list.items.empty()) {
      RETURN_IF_ERROR(NewLine(level));
    }
    text_.push_back(']');
    return absl::OkStatus();
  }

  absl::Status WriteDict(const JinjaDict& dict, int level) {
    std::vector<const std::pair<JinjaValue, JinjaValue>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      RETURN_IF_ERROR(SortByKey(items));
    }
    text_.push_back('{');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_.append(style_.item_separator);
      RETURN_IF_ERROR(NewLine(level + 1));
      RETURN_IF_ERROR(WriteKey(items[i]->first));
      text_.append(style_.key_separator);
      RETURN_IF_ERROR(Write(items[i]->second, level + 1));
    }
    if (!items.empty()) {
      RETURN_IF_ERROR(NewLine(level));
    }
    text_.push_back('}');
    return absl::OkStatus();
  }

  absl::Status WriteKey(const JinjaValue& key) {
    if (key.is_string()) return Write(key, 0);
    ASSIGN_OR_RETURN(const std::string scalar, Scalar(key));
    text_.append(Concat("\"", scalar, "\""));
    return absl::OkStatus();
  }

  static absl::Status SortByKey(
      std::vector<const std::pair<JinjaValue, JinjaValue>*>& items) {
    for (const auto* item : items) {
      if (!item->first.is_string()) {
        return JinjaTypeError("sort_keys needs string keys", item->first);
      }
    }
    std::stable_sort(items.begin(), items.end(),
                     [](const auto* a, const auto* b) {
                       return a->first.text().bytes() < b->first.text().bytes();
                     });
    return absl::OkStatus();
  }

  const JinjaBudget& budget_;
  const JsonStyle& style_;
  std::string text_;
};

absl::StatusOr<JinjaValue> FromJsonAt(const JinjaLimits& limits,
                                      const Json& json, int depth) {
  if (depth > limits.max_nesting) {
    return absl::InvalidArgumentError(
        Concat("JSON is nested more than ", limits.max_nesting, " deep"));
  }
  constexpr TextOrigin kOrigin = TextOrigin::kInput;
  if (json.is_string()) {
    return JinjaValue::Text(
        MarkedText(json.get_ref<const std::string&>(), kOrigin));
  }
  if (json.is_boolean()) return JinjaValue::Bool(json.get<bool>(), kOrigin);
  if (json.is_number_float()) {
    return JinjaValue::Float(json.get<double>(), kOrigin);
  }
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(Concat(
        "the integer ", json.get<uint64_t>(), " does not fit in 64 bits"));
  }
  if (json.is_number_integer()) {
    return JinjaValue::Integer(json.get<int64_t>(), kOrigin);
  }
  if (json.is_array()) {
    std::vector<JinjaValue> items;
    for (const Json& item : json) {
      ASSIGN_OR_RETURN(JinjaValue value, FromJsonAt(limits, item, depth + 1));
      items.push_back(std::move(value));
    }
    return JinjaValue::Sequence(SequenceKind::kList, std::move(items), kOrigin);
  }
  if (json.is_object()) {
    JinjaValue::DictItems items;
    for (const auto& [key, item] : json.items()) {
      ASSIGN_OR_RETURN(JinjaValue value, FromJsonAt(limits, item, depth + 1));
      items.emplace_back(JinjaValue::Text(MarkedText(key, kOrigin)),
                         std::move(value));
    }
    return JinjaValue::Dict(std::move(items), kOrigin);
  }
  if (json.is_null()) return JinjaValue::None(kOrigin);
  return absl::InvalidArgumentError("binary JSON values are not supported");
}

}  // namespace

absl::StatusOr<std::string> ToJson(const JinjaBudget& budget,
                                   const JinjaValue& value,
                                   const JsonStyle& style) {
  JsonWriter writer(budget, style);
  RETURN_IF_ERROR(writer.Write(value, 0));
  RETURN_IF_ERROR(budget.CheckTextSize(writer.text().size()));
  return std::move(writer.text());
}

absl::StatusOr<JinjaValue> FromJson(const JinjaLimits& limits,
                                    const Json& json) {
  return FromJsonAt(limits, json, 1);
}

}  // namespace headrace
