// A long random workload on KvCache, watched by a simple model that knows what
// every block holds.
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "engine/kv_cache/kv_cache.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr int64_t kBlockSize = 4;
constexpr int64_t kNumBlocks = 40;

// What a row of a block was computed from: everything before it.
using Content = std::pair<std::optional<uint64_t>, std::vector<int32_t>>;

struct OpenSequence {
  KvSequence sequence;
  std::vector<int32_t> prompt;
  std::optional<PrefixKey> key;
  int64_t max_rows = 0;
  int64_t computed = 0;
};

class Workload {
 public:
  explicit Workload(uint32_t seed) : random_(seed) {}

  void Run(int num_steps) {
    for (int i = 0; i < num_steps; ++i) {
      switch (Draw(0, 3)) {
        case 0:
          Open();
          break;
        case 1:
        case 2:
          Compute();
          break;
        case 3:
          Close();
          break;
      }
      CheckAccounts();
      if (::testing::Test::HasFatalFailure()) return;
    }
    while (!open_.empty()) Close();
    EXPECT_EQ(cache_.use().used_blocks, 0);
    EXPECT_GT(cache_.use().prefix_hits, 0);
    EXPECT_GT(num_refused_, 0);
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  OpenSequence& Pick() {
    return open_[static_cast<size_t>(
        Draw(0, static_cast<int64_t>(open_.size()) - 1))];
  }

  void Open() {
    OpenSequence next;
    // Few tokens, so that prefixes are common.
    const int64_t prompt_size = Draw(1, 30);
    for (int64_t i = 0; i < prompt_size; ++i) {
      next.prompt.push_back(static_cast<int32_t>(Draw(0, 20) / 20));
    }
    next.max_rows = prompt_size + Draw(0, 20);
    if (Draw(0, 4) > 0) {
      next.key = {.salt = static_cast<uint64_t>(Draw(0, 1)), .rope_hash = 0};
    }
    const auto opened = cache_.Open({.prompt = next.prompt,
                                     .max_rows = next.max_rows,
                                     .prefix_key = next.key});
    if (!opened.ok()) {
      ++num_refused_;
      const KvCacheUse use = cache_.use();
      // At best every whole prompt block but the last would be shared.
      EXPECT_GT(
          cache_.BlocksFor(next.max_rows),
          use.total_blocks - use.used_blocks - cache_.BlocksFor(prompt_size));
      return;
    }
    next.sequence = *opened;
    next.computed = next.sequence.cached_rows;
    ASSERT_LT(next.sequence.cached_rows, prompt_size);
    ASSERT_EQ(static_cast<int64_t>(next.sequence.block_table.size()),
              cache_.BlocksFor(next.max_rows));
    CheckSharedBlocks(next);
    open_.push_back(std::move(next));
  }

  // Shared blocks hold what this sequence would have computed; no other block
  // of its table is in anybody's hands.
  void CheckSharedBlocks(const OpenSequence& next) {
    std::set<int32_t> held;
    for (const OpenSequence& other : open_) {
      held.insert(other.sequence.block_table.begin(),
                  other.sequence.block_table.end());
    }
    std::set<int32_t> own;
    for (size_t i = 0; i < next.sequence.block_table.size(); ++i) {
      const int32_t block = next.sequence.block_table[i];
      ASSERT_TRUE(own.insert(block).second) << "twice in one table";
      const int64_t begin = static_cast<int64_t>(i) * kBlockSize;
      if (begin >= next.sequence.cached_rows) {
        ASSERT_FALSE(held.contains(block)) << "owned by two";
        contents_.erase(block);  // to be overwritten
        continue;
      }
      ASSERT_TRUE(contents_.contains(block)) << "shared before computed";
      ASSERT_EQ(contents_[block], ContentOf(next, begin + kBlockSize));
    }
  }

  static Content ContentOf(const OpenSequence& sequence, int64_t num_rows) {
    std::optional<uint64_t> salt;
    if (sequence.key) salt = sequence.key->salt;
    return {salt,
            {sequence.prompt.begin(), sequence.prompt.begin() + num_rows}};
  }

  void Compute() {
    if (open_.empty()) return;
    OpenSequence& sequence = Pick();
    const int64_t before = sequence.computed;
    sequence.computed = std::min(sequence.max_rows, before + Draw(1, 12));
    for (int64_t end = kBlockSize;
         end <= std::min<int64_t>(sequence.computed,
                                  static_cast<int64_t>(sequence.prompt.size()));
         end += kBlockSize) {
      if (end <= before) continue;
      const auto index = static_cast<size_t>(end / kBlockSize - 1);
      contents_[sequence.sequence.block_table[index]] =
          ContentOf(sequence, end);
    }
    cache_.MarkComputed(sequence.sequence.id, sequence.computed);
  }

  void Close() {
    if (open_.empty()) return;
    OpenSequence& sequence = Pick();
    cache_.Close(sequence.sequence.id);
    std::swap(sequence, open_.back());
    open_.pop_back();
  }

  void CheckAccounts() {
    std::set<int32_t> held;
    for (const OpenSequence& sequence : open_) {
      held.insert(sequence.sequence.block_table.begin(),
                  sequence.sequence.block_table.end());
    }
    const KvCacheUse use = cache_.use();
    ASSERT_EQ(use.used_blocks, static_cast<int64_t>(held.size()));
    ASSERT_LE(use.used_blocks + use.cached_blocks, use.total_blocks);
    ASSERT_LE(use.prefix_hits, use.prefix_queries);
  }

  std::mt19937 random_;
  KvCache cache_{kNumBlocks, kBlockSize};
  std::vector<OpenSequence> open_;
  std::map<int32_t, Content> contents_;  // of whole prompt blocks
  int num_refused_ = 0;
};

TEST(KvCachePropertyTest, KeepsItsAccountsUnderARandomWorkload) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Workload(seed).Run(2000);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace headrace
