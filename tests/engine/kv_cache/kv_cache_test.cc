#include "engine/kv_cache/kv_cache.h"

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

constexpr PrefixKey kKey = {.salt = 1, .rope_hash = 2};
constexpr int64_t kBlockSize = 16;

std::vector<int32_t> Prompt(int64_t size, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

KvSequence OpenOrDie(KvCache& cache, const std::vector<int32_t>& prompt,
                     int64_t max_rows, std::optional<PrefixKey> key = kKey) {
  return cache.Open({.prompt = prompt, .max_rows = max_rows, .prefix_key = key})
      .value();
}

TEST(KvCacheTest, ReservesForTheWholeSequence) {
  KvCache cache(10, kBlockSize);
  const KvSequence sequence = OpenOrDie(cache, Prompt(5), 33);
  EXPECT_EQ(sequence.block_table.size(), 3u);
  EXPECT_EQ(sequence.cached_rows, 0);
  EXPECT_EQ(cache.use().used_blocks, 3);
  cache.Close(sequence.id);
  EXPECT_EQ(cache.use().used_blocks, 0);
}

TEST(KvCacheTest, RefusesWhatDoesNotFitAndChangesNothing) {
  KvCache cache(4, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(40);
  const KvSequence first = OpenOrDie(cache, prompt, 48);
  cache.MarkComputed(first.id, 40);
  cache.Close(first.id);
  EXPECT_EQ(cache.use().cached_blocks, 2);

  const auto refused =
      cache.Open({.prompt = prompt, .max_rows = 200, .prefix_key = kKey});

  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("needs 11 KV blocks of 16 rows; 2 of 4 are free"));
  EXPECT_EQ(cache.use().cached_blocks, 2);
  EXPECT_EQ(cache.use().used_blocks, 0);
  EXPECT_EQ(cache.use().prefix_queries, 40);
}

TEST(KvCacheTest, SharesFullPromptBlocksOnceTheyAreComputed) {
  KvCache cache(20, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(50);
  const KvSequence first = OpenOrDie(cache, prompt, 60);
  cache.MarkComputed(first.id, 31);  // one block and a half

  const KvSequence second = OpenOrDie(cache, prompt, 60);

  EXPECT_EQ(second.cached_rows, 16);
  EXPECT_EQ(second.block_table[0], first.block_table[0]);
  EXPECT_NE(second.block_table[1], first.block_table[1]);
  EXPECT_EQ(cache.use().used_blocks, 7);
  EXPECT_EQ(cache.use().prefix_queries, 100);
  EXPECT_EQ(cache.use().prefix_hits, 16);
}

TEST(KvCacheTest, GeneratedRowsAndPartialBlocksAreNotShared) {
  KvCache cache(20, kBlockSize);
  const KvSequence first = OpenOrDie(cache, Prompt(20), 100);
  cache.MarkComputed(first.id, 90);
  cache.Close(first.id);
  EXPECT_EQ(cache.use().cached_blocks, 1);
}

TEST(KvCacheTest, AlwaysLeavesTheLastPromptRowToCompute) {
  KvCache cache(20, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(32);
  const KvSequence first = OpenOrDie(cache, prompt, 32);
  cache.MarkComputed(first.id, 32);
  EXPECT_EQ(OpenOrDie(cache, prompt, 32).cached_rows, 16);
  EXPECT_EQ(OpenOrDie(cache, Prompt(33), 33).cached_rows, 32);
}

TEST(KvCacheTest, ReusesNoMoreThanAsked) {
  KvCache cache(20, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(70);
  const KvSequence first = OpenOrDie(cache, prompt, 70);
  cache.MarkComputed(first.id, 70);
  for (const auto& [limit, expected] :
       {std::pair{0, 0}, std::pair{15, 0}, std::pair{40, 32},
        std::pair{1000, 64}}) {
    const KvSequence sequence = cache
                                    .Open({.prompt = prompt,
                                           .max_rows = 70,
                                           .prefix_key = kKey,
                                           .max_cached_rows = limit})
                                    .value();
    EXPECT_EQ(sequence.cached_rows, expected) << limit;
    cache.Close(sequence.id);
  }
}

TEST(KvCacheTest, SharesNothingAcrossKeysOrWithoutOne) {
  KvCache cache(30, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(40);
  const KvSequence first = OpenOrDie(cache, prompt, 40);
  cache.MarkComputed(first.id, 40);
  EXPECT_EQ(OpenOrDie(cache, prompt, 40, PrefixKey{.salt = 9, .rope_hash = 2})
                .cached_rows,
            0);
  EXPECT_EQ(OpenOrDie(cache, prompt, 40, PrefixKey{.salt = 1, .rope_hash = 9})
                .cached_rows,
            0);
  const KvSequence keyless = OpenOrDie(cache, prompt, 40, std::nullopt);
  EXPECT_EQ(keyless.cached_rows, 0);
  cache.MarkComputed(keyless.id, 40);
  cache.Close(keyless.id);
  EXPECT_EQ(cache.use().cached_blocks, 0);
}

TEST(KvCacheTest, CachedBlocksAreGivenUpWhenFreeOnesRunOut) {
  KvCache cache(4, kBlockSize);
  const std::vector<int32_t> old_prompt = Prompt(33);
  const KvSequence old = OpenOrDie(cache, old_prompt, 33);
  cache.MarkComputed(old.id, 33);
  cache.Close(old.id);
  EXPECT_EQ(cache.use().cached_blocks, 2);

  // Three blocks: two are free, so the end of the old prompt has to go.
  const KvSequence next = OpenOrDie(cache, Prompt(40, 1000), 40);

  EXPECT_EQ(cache.use().cached_blocks, 1);
  cache.Close(next.id);
  EXPECT_EQ(OpenOrDie(cache, old_prompt, 33).cached_rows, 16);
}

TEST(KvCacheTest, BlocksInUseAreNotGivenUp) {
  KvCache cache(6, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(33);
  const KvSequence first = OpenOrDie(cache, prompt, 33);
  cache.MarkComputed(first.id, 33);
  const KvSequence second = OpenOrDie(cache, prompt, 33);
  cache.Close(first.id);
  EXPECT_EQ(cache.use().cached_blocks, 0);  // second holds them
  EXPECT_EQ(cache.use().used_blocks, 3);

  const KvSequence third = OpenOrDie(cache, Prompt(48, 1000), 48);

  EXPECT_EQ(cache.use().used_blocks, 6);
  for (const int32_t block : third.block_table) {
    EXPECT_THAT(second.block_table, ::testing::Not(::testing::Contains(block)));
  }
}

TEST(KvCacheTest, TwoThatComputeTheSamePromptAtOnceKeepTheirOwnBlocks) {
  KvCache cache(20, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(50);
  const KvSequence first = OpenOrDie(cache, prompt, 50);
  const KvSequence second = OpenOrDie(cache, prompt, 50);
  cache.MarkComputed(first.id, 16);
  cache.MarkComputed(second.id, 48);  // overtakes
  cache.MarkComputed(first.id, 50);

  const KvSequence third = OpenOrDie(cache, prompt, 50);

  EXPECT_EQ(third.cached_rows, 48);
  EXPECT_EQ(third.block_table[0], first.block_table[0]);
  EXPECT_EQ(third.block_table[1], second.block_table[1]);
  for (const KvSequenceId id : {first.id, second.id, third.id}) {
    cache.Close(id);
  }
  EXPECT_EQ(cache.use().used_blocks, 0);
  EXPECT_EQ(cache.use().cached_blocks, 3);
}

TEST(KvCacheTest, AnEvictedLeadEndsTheSharingQuietly) {
  KvCache cache(10, kBlockSize);
  const std::vector<int32_t> prompt = Prompt(64);
  const KvSequence first = OpenOrDie(cache, prompt, 64);
  const KvSequence second = OpenOrDie(cache, prompt, 64);
  cache.MarkComputed(first.id, 32);
  cache.MarkComputed(second.id, 32);  // continues first's entries
  cache.Close(first.id);
  const KvSequence third = OpenOrDie(cache, Prompt(96, 1000), 96);  // evicts

  cache.MarkComputed(second.id, 64);

  cache.Close(second.id);
  cache.Close(third.id);
  EXPECT_EQ(cache.use().used_blocks, 0);
  EXPECT_EQ(cache.use().cached_blocks, 0);
}

}  // namespace
}  // namespace headrace
