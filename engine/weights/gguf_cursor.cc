#include "engine/weights/gguf_cursor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"

namespace headrace {

std::string GgufCursor::Subject() const {
  std::string subject = subject_;
  for (const uint64_t index : indices_) {
    absl::StrAppendFormat(&subject, "[%d]", index);
  }
  return subject;
}

absl::Status GgufCursor::ErrorAt(uint64_t offset,
                                 std::string_view message) const {
  const std::string subject = Subject();
  return FileErrorAt(
      file_name_, offset,
      absl::StrFormat("%s%s%s", subject, subject.empty() ? "" : " ", message));
}

absl::Status GgufCursor::PastEnd(std::string_view what, uint64_t wanted) const {
  return ErrorAt(
      offset(), absl::StrFormat("%s needs %d bytes; the file has %d more", what,
                                wanted, bytes_.remaining()));
}

absl::StatusOr<std::string_view> GgufCursor::TakeBytes(std::string_view what,
                                                       uint64_t size) {
  const std::optional<std::string_view> bytes = bytes_.ReadBytes(size);
  if (!bytes.has_value()) return PastEnd(what, size);
  return *bytes;
}

absl::StatusOr<std::string_view> GgufCursor::TakeString(std::string_view what,
                                                        uint64_t max_bytes) {
  const uint64_t start = offset();
  ASSIGN_OR_RETURN(const uint64_t size, Take<uint64_t>(what));
  if (size > max_bytes) {
    return ErrorAt(start, absl::StrFormat("%s has %d bytes; the limit is %d",
                                          what, size, max_bytes));
  }
  ASSIGN_OR_RETURN(const std::string_view text, TakeBytes(what, size));
  if (!IsUtf8(text)) {
    return ErrorAt(start,
                   absl::StrFormat("%s is not UTF-8: %s", what, Quoted(text)));
  }
  return text;
}

absl::Status GgufCursor::CheckCount(uint64_t offset, std::string_view what,
                                    uint64_t count,
                                    uint64_t min_record_bytes) const {
  const uint64_t most = bytes_.remaining() / min_record_bytes;
  if (count <= most) return absl::OkStatus();
  return ErrorAt(
      offset, absl::StrFormat("%s is %d; the %d bytes left hold %d at the most",
                              what, count, bytes_.remaining(), most));
}

}  // namespace headrace
