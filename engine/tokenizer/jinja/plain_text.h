// Joins and splits plain strings. (absl's StrCat does not take
// std::string_view where Abseil was built with its own.)
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_PLAIN_TEXT_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_PLAIN_TEXT_H_

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

inline void AppendTo(std::string& text, std::string_view part) {
  text.append(part);
}
template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>)
void AppendTo(std::string& text, T number) {
  text.append(std::to_string(number));
}

// The parts, strings and integers, one after the other.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string text;
  (AppendTo(text, parts), ...);
  return text;
}

// The parts between separators, empty ones too: one more than separators.
inline std::vector<std::string_view> SplitAt(std::string_view text,
                                             char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t cut = text.find(separator); cut != std::string_view::npos;
       cut = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, cut - begin));
    begin = cut + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

inline bool Contains(std::string_view text, char c) {
  return text.find(c) != std::string_view::npos;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_PLAIN_TEXT_H_
