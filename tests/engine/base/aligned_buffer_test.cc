#include "engine/base/aligned_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using Buffer = AlignedBuffer<std::byte>;

// Of a buffer that starts at a page.
int64_t ResidentPages(const Buffer& buffer) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((buffer.size() + page - 1) / page);
  EXPECT_EQ(mincore(const_cast<std::byte*>(buffer.data()), buffer.size(),
                    pages.data()),
            0);
  return std::count_if(pages.begin(), pages.end(),
                       [](unsigned char state) { return (state & 1) != 0; });
}

TEST(AlignedBufferTest, IsAlignedAndZeroWhateverItsSize) {
  for (const size_t size :
       {1u, 63u, 4097u, 131072u, 131073u, 2097151u, 2097152u, 5000000u}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment,
              0u);
    EXPECT_TRUE(std::all_of(buffer.span().begin(), buffer.span().end(),
                            [](std::byte b) { return b == std::byte{0}; }))
        << size;
    buffer[size - 1] = std::byte{1};
  }
}

TEST(AlignedBufferTest, WhatNoOneTouchesTakesNoMemory) {
  for (const size_t size : {size_t{1} << 20, size_t{8} << 20}) {
    Buffer buffer(size);
    EXPECT_EQ(ResidentPages(buffer), 0) << size;
    buffer[size / 2] = std::byte{1};
    EXPECT_GT(ResidentPages(buffer), 0) << size;
  }
}

TEST(AlignedBufferTest, MovesWithItsMemory) {
  Buffer first(200000);
  first[199999] = std::byte{7};
  const std::byte* data = first.data();
  const Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second[199999], std::byte{7});
}

}  // namespace
}  // namespace headrace
