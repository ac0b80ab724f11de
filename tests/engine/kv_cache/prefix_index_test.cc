#include "engine/kv_cache/prefix_index.h"

#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using Tokens = std::vector<int32_t>;
constexpr auto kRoot = PrefixIndex::EntryId::kRoot;
constexpr PrefixKey kKey = {.salt = 1, .rope_hash = 2};

// Blocks that hold the leading tokens.
std::vector<int32_t> Found(const PrefixIndex& index, const PrefixKey& key,
                           const Tokens& tokens, int64_t max_blocks = 100) {
  std::vector<int32_t> blocks;
  for (const PrefixIndex::Match& match : index.Find(key, tokens, max_blocks)) {
    blocks.push_back(match.block);
  }
  return blocks;
}

// Blocks 7, 8 and 9 hold 1 2 | 3 4 | 5 6.
PrefixIndex ThreeBlocks() {
  PrefixIndex index(2);
  auto parent = index.Insert(kKey, kRoot, Tokens{1, 2}, 7).entry;
  parent = index.Insert(kKey, parent, Tokens{3, 4}, 8).entry;
  index.Insert(kKey, parent, Tokens{5, 6}, 9);
  return index;
}

TEST(PrefixIndexTest, FindsTheLongestRunOfFullBlocks) {
  const PrefixIndex index = ThreeBlocks();
  using Blocks = std::vector<int32_t>;
  EXPECT_EQ(Found(index, kKey, {1, 2, 3, 4, 5, 6, 7}), (Blocks{7, 8, 9}));
  EXPECT_EQ(Found(index, kKey, {1, 2, 3, 4, 5}), (Blocks{7, 8}));
  EXPECT_EQ(Found(index, kKey, {1, 2, 3, 5, 5, 6}), (Blocks{7}));
  EXPECT_EQ(Found(index, kKey, {3, 4}), Blocks{});
  EXPECT_EQ(Found(index, kKey, {1}), Blocks{});
  EXPECT_EQ(Found(index, kKey, {1, 2, 3, 4}, 1), (Blocks{7}));
}

TEST(PrefixIndexTest, AnotherSaltOrRopeFindsNothing) {
  const PrefixIndex index = ThreeBlocks();
  EXPECT_TRUE(Found(index, {.salt = 2, .rope_hash = 2}, {1, 2}).empty());
  EXPECT_TRUE(Found(index, {.salt = 1, .rope_hash = 1}, {1, 2}).empty());
}

TEST(PrefixIndexTest, AnEqualEntryKeepsTheFirstBlock) {
  PrefixIndex index = ThreeBlocks();
  const PrefixIndex::Inserted again =
      index.Insert(kKey, kRoot, Tokens{1, 2}, 5);
  EXPECT_FALSE(again.is_new);
  EXPECT_FALSE(index.HoldsBlock(5));
  EXPECT_EQ(Found(index, kKey, {1, 2}), (std::vector<int32_t>{7}));
  // What follows hangs on the entry, whichever block it holds.
  EXPECT_FALSE(index.Insert(kKey, again.entry, Tokens{3, 4}, 6).is_new);
}

TEST(PrefixIndexTest, EvictsTheLeastRecentlyUnpinnedFirst) {
  PrefixIndex index = ThreeBlocks();
  EXPECT_EQ(index.Evict(), std::nullopt);  // all pinned
  index.Unpin(9);
  index.Unpin(8);
  index.Unpin(7);
  index.Pin(9);
  index.Unpin(9);
  EXPECT_EQ(index.num_evictable(), 3);
  EXPECT_EQ(index.Evict(), 8);
  EXPECT_EQ(index.Evict(), 7);
  EXPECT_EQ(index.Evict(), 9);
  EXPECT_EQ(index.num_evictable(), 0);
  EXPECT_FALSE(index.HoldsBlock(8));
}

TEST(PrefixIndexTest, ChildrenOfAnEvictedEntryAreNotFoundUnderItsSuccessor) {
  PrefixIndex index = ThreeBlocks();
  const auto first = index.Find(kKey, Tokens{1, 2}, 1)[0].entry;
  index.Unpin(7);
  EXPECT_EQ(index.Evict(), 7);
  EXPECT_FALSE(index.Contains(first));
  const auto second = index.Insert(kKey, kRoot, Tokens{1, 2}, 7).entry;
  EXPECT_NE(first, second);
  EXPECT_EQ(Found(index, kKey, {1, 2, 3, 4}), (std::vector<int32_t>{7}));
}

}  // namespace
}  // namespace headrace
