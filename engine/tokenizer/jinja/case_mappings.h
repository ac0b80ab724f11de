// The characters whose upper or title case is not one character of its own:
// data for unicode.h.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_CASE_MAPPINGS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_CASE_MAPPINGS_H_

namespace headrace {

struct SpecialCase {
  char32_t c;
  const char32_t* upper;  // NUL-terminated
  const char32_t* title;
};

// nullptr when both mappings of `c` are single characters.
// Source: Unicode 15, SpecialCasing.txt, unconditional mappings.
const SpecialCase* FindSpecialCase(char32_t c);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_CASE_MAPPINGS_H_
