#include "engine/tokenizer/regex_dialect.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

// Escapes that stand for a set; `set` is written inside brackets.
struct SetEscape {
  char letter;
  std::string_view set;
};
constexpr SetEscape kSetEscapes[] = {
    {'s', R"(\p{White_Space})"},
    {'d', R"(\p{Nd})"},
    {'w', R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})"},
    {'h', R"(0-9A-Fa-f)"},
};
// Escapes that mean the same in both.
constexpr std::string_view kSameInside = "rntfae";
constexpr std::string_view kSameOutside = "rntfaeAz";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (position_ < pattern_.size()) {
      RETURN_IF_ERROR(in_class_ ? TranslateInClass() : TranslateOutside());
    }
    return std::move(out_);
  }

 private:
  char Current() const { return pattern_[position_]; }
  bool NextIs(char c) const {
    return position_ + 1 < pattern_.size() && pattern_[position_ + 1] == c;
  }
  void Copy() { out_.push_back(pattern_[position_++]); }

  absl::Status Unsupported(std::string_view construct) const {
    return absl::UnimplementedError(
        absl::StrFormat("regular expression \"%s\": %s at offset %d is not "
                        "supported",
                        pattern_, construct, position_));
  }

  absl::Status TranslateOutside() {
    if (Current() == '\\') return TranslateEscape();
    if (Current() == '{') return TranslateInterval();
    if (Current() == '(') return TranslateGroup();
    if (Current() != '[') {
      Copy();
      return absl::OkStatus();
    }
    in_class_ = true;
    Copy();
    if (position_ < pattern_.size() && Current() == '^') Copy();
    // A bracket that comes first is a member.
    if (position_ < pattern_.size() && Current() == ']') out_ += '\\', Copy();
    return absl::OkStatus();
  }

  // Oniguruma has no possessive interval, PCRE2 has: {n,m}+ differs.
  absl::Status TranslateInterval() {
    const size_t close = pattern_.find('}', position_);
    if (close != std::string_view::npos && close + 1 < pattern_.size() &&
        pattern_[close + 1] == '+') {
      return Unsupported("a repeated interval, {n,m}+,");
    }
    Copy();
    return absl::OkStatus();
  }

  // Verbs, and flags other than i: (?m) and (?s) differ.
  absl::Status TranslateGroup() {
    if (NextIs('*')) return Unsupported("(*");
    if (NextIs('?')) {
      const std::string_view flags = pattern_.substr(position_ + 2);
      const size_t length =
          flags.find_first_not_of("-abcdefghijklmnopqrstuvwxyz");
      const std::string_view letters = flags.substr(0, length);
      if (letters.find_first_not_of("-i") != std::string_view::npos) {
        return Unsupported(absl::StrFormat("the flag group (?%s", letters));
      }
    }
    Copy();
    return absl::OkStatus();
  }

  absl::Status TranslateInClass() {
    if (Current() == '\\') return TranslateEscape();
    if (Current() == '[') return Unsupported("a class in a class");
    if (Current() == '&' && NextIs('&')) return Unsupported("&& in a class");
    if (Current() == ']') in_class_ = false;
    Copy();
    return absl::OkStatus();
  }

  absl::Status TranslateEscape() {
    if (position_ + 1 == pattern_.size()) return Unsupported("a final \\");
    const char letter = pattern_[position_ + 1];
    for (const SetEscape& escape : kSetEscapes) {
      if (letter == escape.letter) return AppendSet(escape.set);
      if (letter == absl::ascii_toupper(escape.letter)) {
        if (!in_class_) {
          out_.append("[^").append(escape.set).append("]");
          position_ += 2;
          return absl::OkStatus();
        }
        // Of the sets only these are one property, which has a complement.
        if (letter == 'S') return AppendSet(R"(\P{White_Space})");
        if (letter == 'D') return AppendSet(R"(\P{Nd})");
      }
    }
    if (letter == 'p' || letter == 'P' || letter == 'x') return CopyBraced();
    if (letter == 'u') return TranslateCodePoint();
    const std::string_view same = in_class_ ? kSameInside : kSameOutside;
    if (absl::ascii_isalnum(static_cast<unsigned char>(letter)) &&
        same.find(letter) == std::string_view::npos) {
      return Unsupported(absl::StrFormat("\\%c", letter));
    }
    Copy();
    Copy();
    return absl::OkStatus();
  }

  absl::Status AppendSet(std::string_view set) {
    if (in_class_) {
      out_.append(set);
    } else {
      out_.append("[").append(set).append("]");
    }
    position_ += 2;
    return absl::OkStatus();
  }

  // \p{…}, \P{…}, \x{…} and \xHH as they are.
  absl::Status CopyBraced() {
    if (position_ + 2 < pattern_.size() && pattern_[position_ + 2] == '{') {
      const size_t close = pattern_.find('}', position_);
      if (close == std::string_view::npos) return Unsupported("an open {");
      out_.append(pattern_.substr(position_, close + 1 - position_));
      position_ = close + 1;
      return absl::OkStatus();
    }
    if (pattern_[position_ + 1] != 'x') {
      return Unsupported("\\p without braces");
    }
    Copy();
    Copy();
    return absl::OkStatus();
  }

  absl::Status TranslateCodePoint() {
    const std::string_view digits = pattern_.substr(position_ + 2).substr(0, 4);
    if (digits.size() < 4) return Unsupported("a short \\u");
    for (const char digit : digits) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) {
        return Unsupported("\\u without four digits");
      }
    }
    out_.append("\\x{").append(digits).append("}");
    position_ += 6;
    return absl::OkStatus();
  }

  std::string_view pattern_;
  size_t position_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> ToPcre2Pattern(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace headrace
