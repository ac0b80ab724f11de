// Owning, 64-byte aligned, zero-initialised array of trivially copyable
// elements: what kernels read and write. Not a vector: it never grows.
#ifndef HEADRACE_ENGINE_BASE_ALIGNED_BUFFER_H_
#define HEADRACE_ENGINE_BASE_ALIGNED_BUFFER_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace headrace {

// Thread-compatible. Allocation failure throws std::bad_alloc, as for any
// container; sizes that come from files are validated before they get here.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size) : size_(size) {
    if (size == 0) return;
    const size_t bytes =
        (size * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    const bool huge = bytes >= kHugePageBytes;
    void* p = std::aligned_alloc(
        huge ? kHugePageBytes : kAlignment,
        huge ? (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes
             : bytes);
    if (p == nullptr) throw std::bad_alloc();
    if (huge) madvise(p, bytes, MADV_HUGEPAGE);  // a hint; failure is harmless
    std::memset(p, 0, bytes);
    data_.reset(static_cast<T*>(p));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data_.get(), size_}; }
  std::span<const T> span() const { return {data_.get(), size_}; }

 private:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_ALIGNED_BUFFER_H_
