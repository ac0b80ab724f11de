// Rewrites the regular expressions of tokenizer.json for PCRE2. Hugging Face
// runs them with Oniguruma, whose classes and anchors differ in places.
#ifndef HEADRACE_ENGINE_TOKENIZER_REGEX_DIALECT_H_
#define HEADRACE_ENGINE_TOKENIZER_REGEX_DIALECT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace headrace {

// What differs and is rewritten: \s is the property White_Space (PCRE2 adds
// U+180E), \d is \p{Nd}, \w is Alphabetic, M, Nd, Pc and, in Oniguruma, the
// superscripts and fractions of Latin-1; \h is a hexadecimal digit and \uHHHH
// a code point.
//
// Errors: UNIMPLEMENTED naming the construct and its offset, for what has
// another meaning in PCRE2 and no rewriting here: class intersections, classes
// in classes, {n,m}+, flags other than i, and escapes not named above.
// Source: kkos/oniguruma, doc/RE of 6.9.8, ONIG_SYNTAX_ONIGURUMA.
absl::StatusOr<std::string> ToPcre2Pattern(std::string_view pattern);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_REGEX_DIALECT_H_
