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
    const size_t bytes = RoundUp(size * sizeof(T), kAlignment);
    if (bytes >= kMappedBytes) {
      void* map = bytes >= kLargeBytes ? MapHugePages(bytes) : Map(bytes);
      data_ = {static_cast<T*>(map), Free{bytes}};
      return;
    }
    void* p = std::aligned_alloc(kAlignment, bytes);
    if (p == nullptr) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    data_ = {static_cast<T*>(p), Free{}};
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
  // From here on memory is the system's and takes nothing until it is touched:
  // buffers for the largest step cost what the steps that ran needed.
  static constexpr size_t kMappedBytes = size_t{128} << 10;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  // And from here on in huge pages: weights. For the rows of a step, a page of
  // 2 MiB for a few of them would be most of what they take.
  static constexpr size_t kLargeBytes = size_t{16} << 20;

  struct Free {
    size_t mapped_bytes = 0;  // 0: allocated
    void operator()(T* p) const {
      if (mapped_bytes == 0) {
        std::free(p);
      } else {
        munmap(p, mapped_bytes);
      }
    }
  };

  static constexpr size_t RoundUp(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
  }

  // Zeroed by the system, page by page, for the thread that touches it first; a
  // page that no one touches takes no memory.
  static void* Map(size_t bytes) {
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    return map;
  }

  static void* MapHugePages(size_t bytes) {
    const size_t used = RoundUp(bytes, size_t{4096});
    auto* begin = static_cast<std::byte*>(Map(used + kHugePageBytes));
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t before = RoundUp(address, kHugePageBytes) - address;
    if (before > 0) munmap(begin, before);
    begin += before;
    munmap(begin + used, kHugePageBytes - before);  // at least a page
    madvise(begin, used, MADV_HUGEPAGE);  // a hint; failure is harmless
    return begin;
  }

  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_ALIGNED_BUFFER_H_
