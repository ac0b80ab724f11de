// What keys and values are kept as.
#ifndef HEADRACE_ENGINE_TENSOR_KV_CACHE_DTYPE_H_
#define HEADRACE_ENGINE_TENSOR_KV_CACHE_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace headrace {

// A float32 or bfloat16 each, or integers with one float32 scale per position
// and head. 16 bits are integers unless asked otherwise: less than bfloat16's
// error at the same size, and products twice as fast as in float32.
enum class KvCacheDtype : uint8_t { kF32, kBF16, kInt16, kInt8 };

struct KvCacheDtypeLayout {
  KvCacheDtype dtype;
  std::string_view name;
  int64_t bytes;  // of an element
};

inline constexpr KvCacheDtypeLayout kKvCacheDtypes[] = {
    {KvCacheDtype::kF32, "f32", 4},
    {KvCacheDtype::kBF16, "bf16", 2},
    {KvCacheDtype::kInt16, "int16", 2},
    {KvCacheDtype::kInt8, "int8", 1},
};

constexpr const KvCacheDtypeLayout& LayoutOf(KvCacheDtype dtype) {
  return kKvCacheDtypes[static_cast<int>(dtype)];
}

constexpr bool IsInteger(KvCacheDtype dtype) {
  return dtype == KvCacheDtype::kInt16 || dtype == KvCacheDtype::kInt8;
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_KV_CACHE_DTYPE_H_
