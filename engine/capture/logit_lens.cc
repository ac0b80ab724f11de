#include "engine/capture/logit_lens.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "engine/sampling/logprobs.h"

namespace headrace {
namespace {

class LogitLens final : public DerivedQuantity {
 public:
  LogitLens(const DerivedSpec& spec, Unembedding& unembedding)
      : spec_(spec), unembedding_(unembedding) {
    options_.top_n = spec.top_k;
    options_.of_token_ids = spec.token_ids;
  }
  bool Reads(HookPoint hook, int32_t layer) const override {
    return spec_.where.Has(hook, layer);
  }
  void OnRows(const SelectedRows& rows, Emit emit) override {
    std::vector<std::span<const float>> values;
    values.reserve(rows.rows.size());
    for (const SelectedRows::Row& row : rows.rows) values.push_back(row.values);
    unembedding_.Unembed(
        values,
        [&](size_t first, std::span<const float> logits, size_t num_rows) {
          const size_t vocab_size = logits.size() / num_rows;
          for (size_t i = 0; i < num_rows; ++i) {
            Look(logits.subspan(i * vocab_size, vocab_size));
            emit({rows.rows[first + i].index, rows.hook, rows.layer, values_,
                  ids_});
          }
        });
  }

 private:
  void Look(std::span<const float> logits) {
    values_.clear();
    ids_.clear();
    if (!std::all_of(logits.begin(), logits.end(),
                     [](float x) { return std::isfinite(x); })) {
      const auto top_k = static_cast<size_t>(spec_.top_k);
      values_.assign(top_k + 2 * spec_.token_ids.size(),
                     std::numeric_limits<float>::quiet_NaN());
      ids_.assign(top_k, 0);
      return;
    }
    const PositionLogprobs found =
        ComputeLogprobs(logits, /*position=*/0, /*token=*/0, options_);
    for (const TokenLogprob& top : found.top) {
      values_.push_back(top.logprob);
      ids_.push_back(top.token);
    }
    for (const TokenLogprob& token : found.of_token_ids) {
      values_.push_back(token.logprob);
      values_.push_back(static_cast<float>(token.rank));
    }
  }

  const DerivedSpec& spec_;
  Unembedding& unembedding_;
  LogprobsOptions options_;
  std::vector<float> values_;
  std::vector<int32_t> ids_;
};

}  // namespace

std::unique_ptr<DerivedQuantity> MakeLogitLens(const DerivedSpec& spec,
                                               Unembedding& unembedding) {
  return std::make_unique<LogitLens>(spec, unembedding);
}

}  // namespace headrace
