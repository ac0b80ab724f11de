#include "engine/weights/file_error.h"

#include <utf8proc.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace {

absl::Status FileError(std::string_view file, std::string_view message) {
  return absl::DataLossError(absl::StrFormat("%s: %s", file, message));
}

absl::Status FileErrorAt(std::string_view file, uint64_t offset,
                         std::string_view message) {
  return absl::DataLossError(
      absl::StrFormat("%s: offset %d: %s", file, offset, message));
}

std::string Quoted(std::string_view name) {
  constexpr size_t kMaxBytes = 100;
  const std::string shown(name.substr(0, kMaxBytes));
  // Escapes all that is not printable ASCII: a name from a broken file may be
  // anything.
  return absl::StrCat("\"", absl::CHexEscape(shown),
                      name.size() > kMaxBytes ? "…\"" : "\"");
}

std::string Printable(std::string_view text) {
  const std::string shown(text);
  return IsUtf8(text) ? shown : absl::CHexEscape(shown);
}

bool IsUtf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t i = 0;
  while (i < text.size()) {
    if (bytes[i] < 0x80) {
      ++i;
      continue;
    }
    utf8proc_int32_t code_point;
    const utf8proc_ssize_t length = utf8proc_iterate(
        bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i), &code_point);
    if (length <= 0) return false;
    i += static_cast<size_t>(length);
  }
  return true;
}

}  // namespace headrace
