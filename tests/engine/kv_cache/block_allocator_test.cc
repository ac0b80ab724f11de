#include "engine/kv_cache/block_allocator.h"

#include <set>

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(BlockAllocatorTest, HandsOutEachBlockOnce) {
  BlockAllocator allocator(5);
  std::set<int32_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.insert(allocator.Allocate());
  EXPECT_EQ(blocks, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(allocator.num_free(), 0);
}

TEST(BlockAllocatorTest, TakesTheLowestNumberThatIsFree) {
  BlockAllocator allocator(5);
  for (int i = 0; i < 4; ++i) allocator.Allocate();
  for (const int32_t block : {1, 3, 0}) allocator.Release(block);
  EXPECT_EQ(allocator.Allocate(), 0);
  EXPECT_EQ(allocator.Allocate(), 1);
  EXPECT_EQ(allocator.Allocate(), 3);
  EXPECT_EQ(allocator.Allocate(), 4);
}

TEST(BlockAllocatorTest, TheLastReleaseFrees) {
  BlockAllocator allocator(2);
  const int32_t block = allocator.Allocate();
  allocator.AddReference(block);
  EXPECT_EQ(allocator.references(block), 2);
  allocator.Release(block);
  EXPECT_EQ(allocator.num_free(), 1);
  allocator.Release(block);
  EXPECT_EQ(allocator.num_free(), 2);
  EXPECT_EQ(allocator.references(block), 0);
}

TEST(BlockAllocatorDeathTest, StopsOnAReleaseTooMany) {
  BlockAllocator allocator(2);
  const int32_t block = allocator.Allocate();
  allocator.Release(block);
  EXPECT_DEATH(allocator.Release(block), "block 0 is free");
  EXPECT_DEATH(allocator.AddReference(block), "block 0 is free");
}

TEST(BlockAllocatorDeathTest, StopsWhenThereIsNone) {
  BlockAllocator allocator(0);
  EXPECT_DEATH(allocator.Allocate(), "no free block");
}

}  // namespace
}  // namespace headrace
