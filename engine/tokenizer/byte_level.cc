#include "engine/tokenizer/byte_level.h"

#include <array>
#include <cstddef>

#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

// The last character of the alphabet is U+0143, for byte 0xAD.
constexpr size_t kNumChars = 0x144;

struct Alphabet {
  std::array<char32_t, 256> to_char;
  std::array<int16_t, kNumChars> to_byte;  // -1: not of the alphabet
};

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet = {};
  alphabet.to_byte.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c =
        StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.to_char[byte] = c;
    alphabet.to_byte[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t ByteLevelChar(uint8_t byte) { return kAlphabet.to_char[byte]; }

std::string ToByteLevel(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    AppendUtf8(ByteLevelChar(static_cast<uint8_t>(byte)), &text);
  }
  return text;
}

std::optional<std::string> FromByteLevel(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = NextUtf8(text);
    if (part.status != Utf8Status::kValid || part.code_point >= kNumChars) {
      return std::nullopt;
    }
    const int16_t byte = kAlphabet.to_byte[part.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(part.length);
  }
  return bytes;
}

}  // namespace headrace
