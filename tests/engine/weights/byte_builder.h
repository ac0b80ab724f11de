// Little-endian bytes of malformed files, piece by piece.
#ifndef HEADRACE_TESTS_ENGINE_WEIGHTS_BYTE_BUILDER_H_
#define HEADRACE_TESTS_ENGINE_WEIGHTS_BYTE_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace headrace {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Thread-compatible.
class ByteBuilder {
 public:
  template <typename T>
  ByteBuilder& Add(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ByteBuilder& Raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  // A u64 length, then the text: GGUF's string.
  ByteBuilder& String(std::string_view text) {
    return Add<uint64_t>(text.size()).Raw(text);
  }
  ByteBuilder& PadTo(size_t alignment) {
    bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0');
    return *this;
  }

  const std::string& str() const { return bytes_; }
  // As text, for "offset N" in messages.
  std::string here() const { return "offset " + std::to_string(bytes_.size()); }

 private:
  std::string bytes_;
};

// The 24 bytes before a GGUF file's keys.
inline ByteBuilder GgufHeader(uint64_t num_tensors, uint64_t num_keys,
                              uint32_t version = 3) {
  ByteBuilder builder;
  builder.Raw("GGUF").Add(version).Add(num_tensors).Add(num_keys);
  return builder;
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_WEIGHTS_BYTE_BUILDER_H_
