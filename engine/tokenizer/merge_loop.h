// The loop of byte pair encoding: merge the best adjacent pair, the leftmost
// of equals, until none can be. O(n log n) whatever the text.
//
// What "best" means is the caller's: ranks of merges (bpe_model) or scores of
// pieces (spm_model).
#ifndef HEADRACE_ENGINE_TOKENIZER_MERGE_LOOP_H_
#define HEADRACE_ENGINE_TOKENIZER_MERGE_LOOP_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace headrace {

// A stretch of the word that is one token so far. Offsets into the word are
// 32 bits wide: a text is at most 2 GiB, as is a message on the wire.
struct MergeSymbol {
  int32_t id;  // -1: no token
  uint32_t begin;
  uint32_t length;  // in bytes; 0 once merged into its left neighbour
  int32_t previous = -1;
  int32_t next = -1;
};

// What two adjacent symbols become; the lowest priority goes first.
struct MergeResult {
  uint32_t priority;
  int32_t id;
};

// Work space, to be kept between words.
struct MergeScratch {
  struct Candidate {
    uint32_t priority;
    int32_t left;
    uint32_t length;  // of both symbols: tells whether they have changed
    int32_t id;
  };
  std::vector<MergeSymbol> symbols;
  std::vector<Candidate> queue;
};

// Merges `scratch->symbols`, which are adjacent, in order and not linked yet.
// What is left are the symbols reached from the first by `next`.
//
//   find: std::optional<MergeResult>(const MergeSymbol& left,
//                                    const MergeSymbol& right)
template <typename Find>
void MergeSymbols(const Find& find, MergeScratch* scratch) {
  std::vector<MergeSymbol>& symbols = scratch->symbols;
  auto& queue = scratch->queue;
  queue.clear();
  const auto later = [](const MergeScratch::Candidate& a,
                        const MergeScratch::Candidate& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.left > b.left;
  };
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const MergeSymbol& a = symbols[left];
    const MergeSymbol& b = symbols[a.next];
    const std::optional<MergeResult> merged = find(a, b);
    if (!merged) return;
    queue.push_back({merged->priority, left, a.length + b.length, merged->id});
    std::push_heap(queue.begin(), queue.end(), later);
  };

  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), later);
    const MergeScratch::Candidate best = queue.back();
    queue.pop_back();
    MergeSymbol& left = symbols[best.left];
    if (left.length == 0 || left.next < 0) continue;
    MergeSymbol& right = symbols[left.next];
    if (left.length + right.length != best.length) continue;
    left.id = best.id;
    left.length = best.length;
    left.next = right.next;
    right.length = 0;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_MERGE_LOOP_H_
