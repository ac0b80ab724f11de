// Hash maps by text that are looked up with std::string_view, and quoting for
// messages. Debian builds Abseil with a string_view of its own, so that its
// defaults do neither.
#ifndef HEADRACE_ENGINE_TOKENIZER_TEXT_MAP_H_
#define HEADRACE_ENGINE_TOKENIZER_TEXT_MAP_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace headrace {

inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    return absl::Hash<absl::string_view>()(ToAbsl(text));
  }
};
struct TextEqual {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const {
    return a == b;
  }
};

template <typename Value>
using TextMap = absl::flat_hash_map<std::string, Value, TextHash, TextEqual>;
// The texts live elsewhere.
template <typename Value>
using TextViewMap =
    absl::flat_hash_map<std::string_view, Value, TextHash, TextEqual>;

// With quotes, and without bytes that would spoil a message.
inline std::string Quote(std::string_view text) {
  return "\"" + absl::Utf8SafeCHexEscape(ToAbsl(text)) + "\"";
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_TEXT_MAP_H_
