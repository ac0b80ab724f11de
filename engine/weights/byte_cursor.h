// Reads little-endian numbers and byte strings from a span, never past its
// end. What an early end means, its user knows.
#ifndef HEADRACE_ENGINE_WEIGHTS_BYTE_CURSOR_H_
#define HEADRACE_ENGINE_WEIGHTS_BYTE_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace headrace {

// Thread-compatible. `bytes` must outlive the cursor and what it returns.
class ByteCursor {
  static_assert(std::endian::native == std::endian::little);

 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  // nullopt, and nothing consumed, when fewer bytes are left.
  template <typename T>
  std::optional<T> Read() {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  std::optional<std::string_view> ReadBytes(uint64_t size) {
    if (remaining() < size) return std::nullopt;
    const std::string_view view(
        reinterpret_cast<const char*>(bytes_.data() + offset_), size);
    offset_ += size;
    return view;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_BYTE_CURSOR_H_
