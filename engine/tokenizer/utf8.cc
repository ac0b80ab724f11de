#include "engine/tokenizer/utf8.h"

#include <cstring>

namespace headrace {
namespace {

struct LeadByte {
  size_t length;       // of the character it starts; 0 when it starts none
  uint8_t second_min;  // limits of the second byte
  uint8_t second_max;
};

// Unicode 15, table 3-7.
LeadByte ClassifyLead(uint8_t lead) {
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t AsciiRunLength(std::string_view bytes) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t length = 0;
  while (length + 8 <= bytes.size()) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + length, 8);
    if ((word & kHighBits) != 0) break;
    length += 8;
  }
  while (length < bytes.size() && static_cast<uint8_t>(bytes[length]) < 0x80) {
    ++length;
  }
  return length;
}

}  // namespace

Utf8Part NextUtf8(std::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return {lead, 1, Utf8Status::kValid};
  const LeadByte kind = ClassifyLead(lead);
  if (kind.length == 0) return {0, 1, Utf8Status::kInvalid};
  char32_t code_point = lead & (0x7F >> kind.length);
  for (size_t i = 1; i < kind.length; ++i) {
    if (i == bytes.size()) return {0, i, Utf8Status::kIncomplete};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? kind.second_min : 0x80;
    const uint8_t high = i == 1 ? kind.second_max : 0xBF;
    if (byte < low || byte > high) return {0, i, Utf8Status::kInvalid};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, kind.length, Utf8Status::kValid};
}

void AppendUtf8(char32_t code_point, std::string* text) {
  const auto put = [text](char32_t byte) {
    text->push_back(static_cast<char>(static_cast<uint8_t>(byte)));
  };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t Utf8RunLength(std::string_view bytes, bool valid) {
  size_t length = 0;
  while (length < bytes.size()) {
    if (valid) length += AsciiRunLength(bytes.substr(length));
    if (length == bytes.size()) break;
    const Utf8Part part = NextUtf8(bytes.substr(length));
    if ((part.status == Utf8Status::kValid) != valid) break;
    length += part.length;
  }
  return length;
}

}  // namespace headrace
