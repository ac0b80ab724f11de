// UTF-8 as Unicode 15, table 3-7 has it: one character, or one maximal
// ill-formed part, at a time. Input may be any bytes.
#ifndef HEADRACE_ENGINE_TOKENIZER_UTF8_H_
#define HEADRACE_ENGINE_TOKENIZER_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

enum class Utf8Status : uint8_t {
  kValid,       // a whole character
  kInvalid,     // a maximal ill-formed part, whatever follows
  kIncomplete,  // the end of the bytes; more of them could make a character
};

struct Utf8Part {
  char32_t code_point;  // meaningful when valid
  size_t length;        // in bytes, 1 to 4
  Utf8Status status;
};

// The part at the start of `bytes`, which must not be empty.
Utf8Part NextUtf8(std::string_view bytes);

void AppendUtf8(char32_t code_point, std::string* text);

// Length of the longest prefix of `bytes` that is wholly valid (or, with
// `valid` false, wholly ill-formed).
size_t Utf8RunLength(std::string_view bytes, bool valid);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_UTF8_H_
