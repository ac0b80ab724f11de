#include "engine/tokenizer/jinja/printing.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

void AppendEscape(char32_t c, std::string& out) {
  const auto value = static_cast<uint32_t>(c);
  if (IsRawByte(c)) {
    AppendCodePoint(c, out);  // no escape of Python's names a raw byte
  } else if (value <= 0xFF) {
    absl::StrAppendFormat(&out, "\\x%02x", value);
  } else if (value <= 0xFFFF) {
    absl::StrAppendFormat(&out, "\\u%04x", value);
  } else {
    absl::StrAppendFormat(&out, "\\U%08x", value);
  }
}

void AppendStringRepr(std::string_view text, std::string& out) {
  const bool has_single = Contains(text, '\'');
  const char quote = has_single && !Contains(text, '"') ? '"' : '\'';
  out.push_back(quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = CodePointAt(text, i);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out.push_back('\\');
      out.push_back(text[i]);
    } else if (c.value == '\n') {
      out.append("\\n");
    } else if (c.value == '\r') {
      out.append("\\r");
    } else if (c.value == '\t') {
      out.append("\\t");
    } else if (IsPrintable(c.value)) {
      out.append(text.substr(i, c.length));
    } else {
      AppendEscape(c.value, out);
    }
    i += c.length;
  }
  out.push_back(quote);
}

// Writes repr() of values inside each other.
class ReprWriter {
 public:
  explicit ReprWriter(const JinjaBudget& budget) : budget_(budget) {}

  std::string& text() { return text_; }

  absl::Status Write(const JinjaValue& value) {
    RETURN_IF_ERROR(budget_.CheckTextSize(text_.size() + value.text().size()));
    if (value.is_string()) {
      if (value.is_markup()) text_.append("Markup(");
      AppendStringRepr(value.text().bytes(), text_);
      if (value.is_markup()) text_.push_back(')');
    } else if (value.is_none()) {
      text_.append("None");
    } else if (value.is_bool()) {
      text_.append(value.integer() == 1 ? "True" : "False");
    } else if (value.is_integer()) {
      AppendTo(text_, value.integer());
    } else if (value.is_float()) {
      text_.append(FormatFloat(value.number()));
    } else if (value.is_undefined()) {
      text_.append("Undefined");
    } else if (value.dict() != nullptr) {
      return WriteDict(*value.dict());
    } else if (value.sequence() != nullptr) {
      return WriteSequence(*value.sequence());
    } else {
      return Unprintable(value.type_name());
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Unprintable(std::string_view type) {
    return absl::InvalidArgumentError(
        Concat("a value of type ", type, " cannot be printed"));
  }

  absl::Status WriteSequence(const JinjaSequence& sequence) {
    switch (sequence.kind) {
      case SequenceKind::kList:
        return WriteItems("[", sequence, "]");
      case SequenceKind::kTuple:
      case SequenceKind::kGroup:
        return WriteItems("(", sequence,
                          sequence.items.size() == 1 ? ",)" : ")");
      case SequenceKind::kKeys:
        return WriteItems("dict_keys([", sequence, "])");
      case SequenceKind::kValues:
        return WriteItems("dict_values([", sequence, "])");
      case SequenceKind::kItems:
        return WriteItems("dict_items([", sequence, "])");
      case SequenceKind::kRange:
        return Unprintable("range");
      case SequenceKind::kGenerator:
        return Unprintable("generator");
    }
    return absl::OkStatus();
  }

  absl::Status WriteItems(std::string_view open, const JinjaSequence& sequence,
                          std::string_view close) {
    text_.append(open);
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) text_.append(", ");
      RETURN_IF_ERROR(Write(sequence.items[i]));
    }
    text_.append(close);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const JinjaDict& dict) {
    text_.push_back('{');
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (i > 0) text_.append(", ");
      RETURN_IF_ERROR(Write(dict.items[i].first));
      text_.append(": ");
      RETURN_IF_ERROR(Write(dict.items[i].second));
    }
    text_.push_back('}');
    return absl::OkStatus();
  }

  const JinjaBudget& budget_;
  std::string text_;
};

}  // namespace

absl::StatusOr<MarkedText> ToText(const JinjaBudget& budget,
                                  const JinjaValue& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return MarkedText();
  ASSIGN_OR_RETURN(std::string text, Repr(budget, value));
  return MarkedText(std::move(text), value.origin());
}

absl::StatusOr<std::string> Repr(const JinjaBudget& budget,
                                 const JinjaValue& value) {
  ReprWriter writer(budget);
  RETURN_IF_ERROR(writer.Write(value));
  RETURN_IF_ERROR(budget.CheckTextSize(writer.text().size()));
  return std::move(writer.text());
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.begin(), buffer.end(), value,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string scientific(buffer.begin(), end);
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  // Python's rule (float_repr_style "short"): 1e-05 and 1e+16 are the first
  // with an exponent.
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed_end = std::to_chars(buffer.begin(), buffer.end(), value,
                                       std::chars_format::fixed)
                             .ptr;
  std::string fixed(buffer.begin(), fixed_end);
  if (!Contains(fixed, '.')) fixed.append(".0");
  return fixed;
}

}  // namespace headrace
