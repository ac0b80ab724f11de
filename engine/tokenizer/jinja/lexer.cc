#include "engine/tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/string_literal.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

// Line breaks become \n, and one at the very end goes.
std::string NormalizeLines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
      continue;
    }
    text.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Longest first.
constexpr std::array<std::string_view, 26> kOperators = {
    "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(NormalizeLines(source)) {}

  absl::StatusOr<std::vector<JinjaToken>> Run() {
    while (at_ < text_.size()) RETURN_IF_ERROR(LexData());
    Add(JinjaTokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(text_).substr(at_); }

  void Add(JinjaTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  // Steps over `count` bytes.
  void Skip(size_t count) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<int64_t>(at_),
                   text_.begin() + static_cast<int64_t>(at_ + count), '\n'));
    at_ += count;
  }

  void SkipSpace() {
    const std::string_view rest = Rest();
    Skip(StripLeft(rest, {0, rest.size()}).begin);
  }

  absl::Status Error(std::string_view message) const {
    return JinjaSyntaxError(line_, message);
  }

  // Text up to the next tag, and that tag.
  absl::Status LexData() {
    size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == text_.size()) {
        AddData(Rest());
        Skip(text_.size() - at_);
        return absl::OkStatus();
      }
      if (Contains("{%#", text_[tag + 1])) break;
      ++tag;
    }
    const char type = text_[tag + 1];
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    AddData(DataBeforeTag(Rest().substr(0, tag - at_), type == '{',
                          has_sign ? sign : '\0'));
    Skip(tag - at_);
    if (type == '%') {
      ASSIGN_OR_RETURN(const bool is_raw, LexRaw());
      if (is_raw) return absl::OkStatus();
    }
    Skip(has_sign ? 3 : 2);
    if (type == '#') return LexComment();
    const bool is_variable = type == '{';
    Add(is_variable ? JinjaTokenKind::kVariableBegin
                    : JinjaTokenKind::kBlockBegin,
        "");
    return LexTag(is_variable);
  }

  void AddData(std::string_view data) {
    if (!data.empty()) Add(JinjaTokenKind::kData, std::string(data));
  }

  // What stays of the text before a tag: `sign` '-' takes all white space
  // before it off; without a sign, the indentation of a tag that begins its
  // line goes, unless the tag prints something.
  std::string_view DataBeforeTag(std::string_view data, bool is_variable,
                                 char sign) const {
    if (sign == '-') {
      return data.substr(0, StripRight(data, {0, data.size()}).end);
    }
    if (sign == '+' || is_variable) return data;
    const size_t line_start = data.rfind('\n') + 1;  // npos + 1 is 0
    if (line_start == 0 && !at_line_start_) return data;
    const std::string_view indentation = data.substr(line_start);
    const bool is_blank =
        StripLeft(indentation, {0, indentation.size()}).begin ==
        indentation.size();
    return is_blank ? data.substr(0, line_start) : data;
  }

  // Steps over the end of a tag, whose last two bytes are `close`, and the
  // white space it takes with it.
  void SkipTagEnd(size_t size, bool strips, bool trims) {
    const size_t begin = at_;
    Skip(size);
    if (strips) {
      SkipSpace();
    } else if (trims && Rest().starts_with('\n')) {
      Skip(1);
    }
    at_line_start_ = at_ > begin && text_[at_ - 1] == '\n';
  }

  // The end of a comment or block tag at the offset `at`, with its sign: "%}",
  // "-%}" or "+%}". 0 when there is none.
  size_t TagEndAt(size_t at, std::string_view close) const {
    const std::string_view rest = std::string_view(text_).substr(at);
    if (rest.starts_with(close)) return close.size();
    const bool has_sign = rest.starts_with('-') || rest.starts_with('+');
    return has_sign && rest.substr(1).starts_with(close) ? close.size() + 1 : 0;
  }

  absl::Status LexComment() {
    for (size_t i = at_; i < text_.size(); ++i) {
      const size_t size = TagEndAt(i, "#}");
      if (size == 0) continue;
      Skip(i - at_);
      SkipTagEnd(size, text_[i] == '-', text_[i] == '#');
      return absl::OkStatus();
    }
    return Error("a comment has no end");
  }

  // Length of `{%[-+] word [-+]%}` at the offset `at`; 0 when it is not there.
  // `end` gets the length of the tag's end.
  size_t WordTagAt(size_t at, std::string_view word, size_t& end) const {
    const std::string_view rest = std::string_view(text_).substr(at);
    if (!rest.starts_with("{%")) return 0;
    size_t i = 2;
    if (rest.size() > i && (rest[i] == '-' || rest[i] == '+')) ++i;
    i = StripLeft(rest, {i, rest.size()}).begin;
    if (!rest.substr(i).starts_with(word)) return 0;
    i = StripLeft(rest, {i + word.size(), rest.size()}).begin;
    end = TagEndAt(at + i, "%}");
    return end == 0 ? 0 : i + end;
  }

  // A raw block, whole. False when the tag here is another.
  absl::StatusOr<bool> LexRaw() {
    size_t end = 0;
    const size_t open = WordTagAt(at_, "raw", end);
    // jinja2 has no {% raw +%}.
    const bool has_sign = end == 3;
    if (open == 0 || (has_sign && text_[at_ + open - end] == '+')) return false;
    SkipTagEnd(open, has_sign, /*trims=*/false);
    for (size_t i = at_; i < text_.size(); ++i) {
      const size_t close = WordTagAt(i, "endraw", end);
      if (close == 0) continue;
      const char sign = text_[i + 2];
      AddData(DataBeforeTag(Rest().substr(0, i - at_), /*is_variable=*/false,
                            sign));
      Skip(i - at_);
      const char end_sign = text_[at_ + close - end];
      SkipTagEnd(close, end_sign == '-', end_sign == '%');
      return true;
    }
    return Error("a raw block has no end");
  }

  // The inside of a tag, to its end.
  absl::Status LexTag(bool is_variable) {
    std::vector<char> open_brackets;
    while (true) {
      SkipSpace();
      if (at_ == text_.size()) return Error("a tag has no end");
      if (open_brackets.empty() && LexTagEnd(is_variable)) {
        return absl::OkStatus();
      }
      const char c = text_[at_];
      if (absl::ascii_isdigit(c)) {
        LexNumber();
      } else if (absl::ascii_isalpha(c) || c == '_') {
        LexName();
      } else if (c == '\'' || c == '"') {
        RETURN_IF_ERROR(LexString(c));
      } else {
        RETURN_IF_ERROR(LexOperator(open_brackets));
      }
    }
  }

  bool LexTagEnd(bool is_variable) {
    const size_t size = TagEndAt(at_, is_variable ? "}}" : "%}");
    // {{ … +}} is a plus, not a sign.
    if (size == 0 || (is_variable && text_[at_] == '+')) return false;
    Add(is_variable ? JinjaTokenKind::kVariableEnd : JinjaTokenKind::kBlockEnd,
        "");
    SkipTagEnd(size, text_[at_] == '-', text_[at_] == '%');
    return true;
  }

  void LexName() {
    size_t size = 0;
    while (
        at_ + size < text_.size() &&
        (absl::ascii_isalnum(text_[at_ + size]) || text_[at_ + size] == '_')) {
      ++size;
    }
    Add(JinjaTokenKind::kName, text_.substr(at_, size));
    Skip(size);
  }

  // Length of "12_345" at the offset `at`, in digits that `is_digit` knows.
  size_t DigitsAt(size_t at, bool (*is_digit)(unsigned char)) const {
    size_t size = 0;
    while (at + size < text_.size()) {
      const bool joins =
          text_[at + size] == '_' && size > 0 && at + size + 1 < text_.size();
      const size_t digit = at + size + (joins ? 1 : 0);
      if (!is_digit(static_cast<unsigned char>(text_[digit]))) break;
      size = digit + 1 - at;
    }
    return size;
  }

  // Length of a decimal number with a point or exponent; 0 when there is none.
  size_t FloatAt() const {
    const bool after_point = at_ > 0 && text_[at_ - 1] == '.';
    if (after_point) return 0;  // a.0.1 has two integers
    const size_t whole = DigitsAt(at_, absl::ascii_isdigit);
    size_t size = whole;
    if (at_ + size < text_.size() && text_[at_ + size] == '.') {
      const size_t fraction = DigitsAt(at_ + size + 1, absl::ascii_isdigit);
      if (fraction > 0) size += 1 + fraction;
    }
    size_t exponent = at_ + size;
    if (exponent < text_.size() &&
        absl::ascii_tolower(text_[exponent]) == 'e') {
      ++exponent;
      if (exponent < text_.size() &&
          (text_[exponent] == '+' || text_[exponent] == '-')) {
        ++exponent;
      }
      const size_t digits = DigitsAt(exponent, absl::ascii_isdigit);
      if (digits > 0) return exponent + digits - at_;
    }
    return size > whole ? size : 0;
  }

  size_t IntegerAt() const {
    if (text_[at_] != '0') return DigitsAt(at_, absl::ascii_isdigit);
    const char prefix =
        at_ + 1 < text_.size() ? absl::ascii_tolower(text_[at_ + 1]) : '\0';
    bool (*is_digit)(unsigned char) = nullptr;
    if (prefix == 'x') is_digit = absl::ascii_isxdigit;
    if (prefix == 'o') {
      is_digit = [](unsigned char c) { return c >= '0' && c <= '7'; };
    }
    if (prefix == 'b') {
      is_digit = [](unsigned char c) { return c == '0' || c == '1'; };
    }
    if (is_digit != nullptr) {
      // One underscore may follow the prefix.
      const size_t skip = Rest().substr(2).starts_with('_') ? 3 : 2;
      const size_t digits = DigitsAt(at_ + skip, is_digit);
      if (digits > 0) return skip + digits;
    }
    return DigitsAt(at_, [](unsigned char c) { return c == '0'; });
  }

  void LexNumber() {
    const size_t float_size = FloatAt();
    const size_t size = float_size > 0 ? float_size : IntegerAt();
    std::string digits = text_.substr(at_, size);
    std::erase(digits, '_');
    Add(float_size > 0 ? JinjaTokenKind::kFloat : JinjaTokenKind::kInteger,
        std::move(digits));
    Skip(size);
  }

  absl::Status LexString(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (end >= text_.size()) return Error("a string has no end");
    absl::StatusOr<std::string> text = ParseStringLiteral(
        std::string_view(text_).substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return Error(std::string(text.status().message()));
    Add(JinjaTokenKind::kString, *std::move(text));
    Skip(end + 1 - at_);
    return absl::OkStatus();
  }

  absl::Status LexOperator(std::vector<char>& open_brackets) {
    const std::string_view rest = Rest();
    const auto* op = std::find_if(
        kOperators.begin(), kOperators.end(),
        [rest](std::string_view op) { return rest.starts_with(op); });
    if (op == kOperators.end()) {
      return Error(Concat("unexpected character '",
                          rest.substr(0, CodePointAt(rest, 0).length), "'"));
    }
    const char c = rest[0];
    if (c == '(') open_brackets.push_back(')');
    if (c == '[') open_brackets.push_back(']');
    if (c == '{') open_brackets.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty() || open_brackets.back() != c) {
        return Error(Concat("unexpected '", *op, "'"));
      }
      open_brackets.pop_back();
    }
    Add(JinjaTokenKind::kOperator, std::string(*op));
    Skip(op->size());
    return absl::OkStatus();
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  // Whether the last tag's end took a line break with it, or there was none.
  bool at_line_start_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<JinjaToken>> TokenizeTemplate(
    std::string_view source) {
  return Lexer(source).Run();
}

absl::Status JinjaSyntaxError(int line, std::string_view message) {
  return absl::InvalidArgumentError(Concat("line ", line, ": ", message));
}

}  // namespace headrace
