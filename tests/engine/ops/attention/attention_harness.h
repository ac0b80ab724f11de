// Runs Attention() on cases whose keys and values lie in a paged cache.
#ifndef HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_HARNESS_H_
#define HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_HARNESS_H_

#include <cstdint>
#include <vector>

#include "engine/base/thread_team.h"
#include "engine/kv_cache/paged_kv_storage.h"
#include "engine/ops/attention.h"
#include "tests/engine/ops/attention/attention_reference.h"

namespace headrace::testing {

// The caches of one or more sequences of equal shape, in one storage whose
// blocks are dealt out in random order.
class AttentionHarness {
 public:
  AttentionHarness(std::vector<const AttentionCase*> cases,
                   int64_t block_size = 16);

  // Rows [begin, end) of a sequence.
  struct Slice {
    size_t sequence = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };

  // One step: stores the keys and values of the slices, then attends. Results
  // go to outputs().
  void Step(ThreadTeam& team, const std::vector<Slice>& slices);

  // Scores of row `row` of a sequence and query head, from the cache.
  std::vector<float> Scores(size_t sequence, int64_t row, int64_t head);

  // Of each sequence: [num_rows, num_attention_heads, head_dim].
  const std::vector<std::vector<float>>& outputs() const { return outputs_; }

  PagedKvStorage& storage() { return storage_; }
  const std::vector<int32_t>& block_table(size_t sequence) const {
    return block_tables_[sequence];
  }

 private:
  std::vector<const AttentionCase*> cases_;
  PagedKvStorage storage_;
  std::vector<std::vector<int32_t>> block_tables_;
  std::vector<std::vector<float>> outputs_;
};

}  // namespace headrace::testing

#endif  // HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_HARNESS_H_
