// Takes GGUF's primitives from a file, and says in every error where it was
// and what it was reading.
#ifndef HEADRACE_ENGINE_WEIGHTS_GGUF_CURSOR_H_
#define HEADRACE_ENGINE_WEIGHTS_GGUF_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/weights/byte_cursor.h"

namespace headrace {

// Thread-compatible; owned by one parse.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> file, std::string_view file_name)
      : file_size_(file.size()), file_name_(file_name), bytes_(file) {}

  std::string_view file_name() const { return file_name_; }
  uint64_t file_size() const { return file_size_; }
  uint64_t offset() const { return bytes_.offset(); }

  // What is being read, for messages: `key "a.b"`, `tensor "x"`, or nothing.
  void set_subject(std::string subject) { subject_ = std::move(subject); }
  // `key "a.b"[17]`, `key "a.b"[3][4]`: the element of an array.
  void EnterArray() { indices_.push_back(0); }
  void set_index(uint64_t index) { indices_.back() = index; }
  void LeaveArray() { indices_.pop_back(); }

  // DATA_LOSS "FILE: offset OFFSET: SUBJECT MESSAGE".
  absl::Status ErrorAt(uint64_t offset, std::string_view message) const;
  // `key "a.b"[17]`.
  std::string Subject() const;

  // One little-endian number; `what` names it.
  template <typename T>
  absl::StatusOr<T> Take(std::string_view what) {
    const std::optional<T> value = bytes_.Read<T>();
    if (!value.has_value()) return PastEnd(what, sizeof(T));
    return *value;
  }
  absl::StatusOr<std::string_view> TakeBytes(std::string_view what,
                                             uint64_t size);
  // A u64 length, then that many bytes of UTF-8.
  absl::StatusOr<std::string_view> TakeString(std::string_view what,
                                              uint64_t max_bytes);

  // A count is believed only when that many records of at least
  // `min_record_bytes` can be in the rest of the file. `offset` is where the
  // count stands.
  absl::Status CheckCount(uint64_t offset, std::string_view what,
                          uint64_t count, uint64_t min_record_bytes) const;

 private:
  absl::Status PastEnd(std::string_view what, uint64_t wanted) const;

  const uint64_t file_size_;
  const std::string_view file_name_;
  ByteCursor bytes_;
  std::string subject_;
  std::vector<uint64_t> indices_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_GGUF_CURSOR_H_
