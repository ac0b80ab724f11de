// The byte-level alphabet of GPT-2's BPE: every byte is written as one
// printable character, so that a vocabulary of bytes can be kept as text.
#ifndef HEADRACE_ENGINE_TOKENIZER_BYTE_LEVEL_H_
#define HEADRACE_ENGINE_TOKENIZER_BYTE_LEVEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headrace {

// The character that stands for `byte`: 0x21–7E, A1–AC and AE–FF for
// themselves; the other 68, in ascending order, U+0100, U+0101, …
// Source: openai/gpt-2, src/encoder.py, bytes_to_unicode().
char32_t ByteLevelChar(uint8_t byte);

std::string ToByteLevel(std::string_view bytes);

// The bytes that `text` stands for; nullopt when one of its characters is not
// of the alphabet.
std::optional<std::string> FromByteLevel(std::string_view text);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_BYTE_LEVEL_H_
