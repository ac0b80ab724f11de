// The text of one token within a decoded sequence: the rule that the whole
// decode and the incremental one share.
#ifndef HEADRACE_ENGINE_TOKENIZER_TOKEN_TEXT_H_
#define HEADRACE_ENGINE_TOKENIZER_TOKEN_TEXT_H_

#include <cstdint>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"

namespace headrace {

// The bytes of `token`; none for control and unknown tokens when those are
// skipped. `*strip_space`: the first text still loses a leading space; cleared
// by the first token that has bytes.
std::string_view TokenText(const Tokenizer& tokenizer, int32_t token,
                           bool skip_special_tokens, bool* strip_space);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_TOKEN_TEXT_H_
