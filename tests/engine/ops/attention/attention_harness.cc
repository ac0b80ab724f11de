#include "tests/engine/ops/attention/attention_harness.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "engine/ops/attention_scores.h"
#include "engine/ops/kv_rows.h"

namespace headrace::testing {
namespace {

int64_t BlocksOf(const AttentionCase& c, int64_t block_size) {
  return (c.num_rows + block_size - 1) / block_size;
}

int64_t BlocksOfAll(const std::vector<const AttentionCase*>& cases,
                    int64_t block_size) {
  int64_t blocks = 0;
  for (const AttentionCase* c : cases) blocks += BlocksOf(*c, block_size);
  return blocks;
}

}  // namespace

AttentionHarness::AttentionHarness(std::vector<const AttentionCase*> cases,
                                   int64_t block_size)
    : cases_(std::move(cases)),
      storage_(PagedKvStorage::Create(
                   {.num_layers = 1,
                    .num_key_value_heads = cases_[0]->num_key_value_heads,
                    .head_dim = cases_[0]->head_dim,
                    .block_size = block_size,
                    .dtype = cases_[0]->dtype},
                   BlocksOfAll(cases_, block_size))
                   .value()) {
  std::vector<int32_t> blocks(static_cast<size_t>(storage_.num_blocks()));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  auto next = blocks.begin();
  for (const AttentionCase* c : cases_) {
    const auto end = next + BlocksOf(*c, block_size);
    block_tables_.emplace_back(next, end);
    outputs_.emplace_back(c->q.size());
    next = end;
  }
}

void AttentionHarness::Step(ThreadTeam& team,
                            const std::vector<Slice>& slices) {
  const AttentionCase& shape = *cases_[0];
  const int64_t q_width = shape.num_attention_heads * shape.head_dim;
  const int64_t kv_width = shape.num_key_value_heads * shape.head_dim;
  std::vector<float> q;
  std::vector<AttentionSequence> sequences;
  for (const Slice& slice : slices) {
    const AttentionCase& c = *cases_[slice.sequence];
    StoreKeysAndValues(team, storage_.layout(),
                       {.k = c.k.data() + slice.begin * kv_width,
                        .v = c.v.data() + slice.begin * kv_width,
                        .k_row_stride = kv_width,
                        .v_row_stride = kv_width,
                        .num_rows = slice.end - slice.begin,
                        .first_position = slice.begin,
                        .block_table = block_tables_[slice.sequence]},
                       storage_.layer(0));
    sequences.push_back({.first_row = static_cast<int64_t>(q.size()) / q_width,
                         .num_rows = slice.end - slice.begin,
                         .first_position = slice.begin,
                         .block_table = block_tables_[slice.sequence]});
    q.insert(q.end(), c.q.begin() + slice.begin * q_width,
             c.q.begin() + slice.end * q_width);
  }
  std::vector<float> dst(q.size());
  AttentionScratch scratch(team.num_threads(), shape.head_dim);
  Attention(team,
            {.q = q.data(),
             .q_row_stride = q_width,
             .num_attention_heads = shape.num_attention_heads,
             .scale = shape.scale,
             .sliding_window = shape.sliding_window,
             .sequences = sequences,
             .kv = storage_.layer(0),
             .layout = storage_.layout()},
            scratch, dst.data(), q_width);
  auto next = dst.begin();
  for (const Slice& slice : slices) {
    const auto end = next + (slice.end - slice.begin) * q_width;
    std::copy(next, end,
              outputs_[slice.sequence].begin() + slice.begin * q_width);
    next = end;
  }
}

std::vector<float> AttentionHarness::Scores(size_t sequence, int64_t row,
                                            int64_t head) {
  const AttentionCase& c = *cases_[sequence];
  const AttentionSequence rows = {.first_row = 0,
                                  .num_rows = c.num_rows,
                                  .first_position = 0,
                                  .block_table = block_tables_[sequence]};
  const AttentionInputs inputs = {
      .q = c.q.data(),
      .q_row_stride = c.num_attention_heads * c.head_dim,
      .num_attention_heads = c.num_attention_heads,
      .scale = c.scale,
      .sliding_window = c.sliding_window,
      .kv = storage_.layer(0),
      .layout = storage_.layout()};
  std::vector<float> scores(static_cast<size_t>(KeysOf(inputs, row).count));
  AttentionScores(inputs, rows, row, head, scores.data());
  return scores;
}

}  // namespace headrace::testing
