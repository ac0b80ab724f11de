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
  LogitLens(const DerivedSpec& spec, Unembedding& unembedding,
            const DerivedDimensions& dimensions)
      : spec_(spec),
        unembedding_(unembedding),
        last_layer_(static_cast<int32_t>(dimensions.num_layers) - 1) {
    options_.top_n = spec.top_k;
    options_.of_token_ids = spec.token_ids;
  }
  bool Reads(HookPoint hook, int32_t layer) const override {
    return spec_.where.Has(hook, layer) || IsFinal(hook, layer);
  }
  void OnRows(const SelectedRows& rows, Emit emit) override {
    if (spec_.lens_norm == LensNorm::kRecompute) {
      return Look(rows, Values(rows), emit);
    }
    if (spec_.where.Has(rows.hook, rows.layer)) Keep(rows);
    if (!IsFinal(rows.hook, rows.layer)) return;
    // The step's rows, of every layer that came before.
    const std::vector<std::span<const float>> final_rows = Values(rows);
    for (const Kept& kept : kept_) {
      SelectedRows earlier{.hook = kept.hook, .layer = kept.layer, .rows = {}};
      std::vector<SelectedRows::Row> views(rows.rows.begin(), rows.rows.end());
      for (size_t i = 0; i < views.size(); ++i) views[i].values = kept.rows[i];
      earlier.rows = views;
      Look(earlier, final_rows, emit);
    }
    kept_.clear();
  }

 private:
  // Rows of one hook and layer that wait for those of the last layer.
  struct Kept {
    HookPoint hook;
    int32_t layer;
    std::vector<std::vector<float>> rows;
  };

  // Whether the final norm reads these rows.
  bool IsFinal(HookPoint hook, int32_t layer) const {
    return spec_.lens_norm == LensNorm::kFinalScale &&
           hook == HookPoint::kResidPost && layer == last_layer_;
  }
  static std::vector<std::span<const float>> Values(const SelectedRows& rows) {
    std::vector<std::span<const float>> values;
    values.reserve(rows.rows.size());
    for (const SelectedRows::Row& row : rows.rows) values.push_back(row.values);
    return values;
  }
  void Keep(const SelectedRows& rows) {
    Kept& kept = kept_.emplace_back(rows.hook, rows.layer);
    for (const SelectedRows::Row& row : rows.rows) {
      kept.rows.emplace_back(row.values.begin(), row.values.end());
    }
  }

  // Rows with the final norm's statistics of those at their side.
  void Look(const SelectedRows& rows,
            std::span<const std::span<const float>> statistics, Emit emit) {
    unembedding_.Unembed(
        Values(rows), statistics,
        [&](size_t first, std::span<const float> logits, size_t num_rows) {
          const size_t vocab_size = logits.size() / num_rows;
          for (size_t i = 0; i < num_rows; ++i) {
            Look(logits.subspan(i * vocab_size, vocab_size));
            emit({rows.rows[first + i].index, rows.hook, rows.layer, values_,
                  ids_});
          }
        });
  }
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
  const int32_t last_layer_;
  std::vector<Kept> kept_;
  LogprobsOptions options_;
  std::vector<float> values_;
  std::vector<int32_t> ids_;
};

}  // namespace

std::unique_ptr<DerivedQuantity> MakeLogitLens(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions) {
  return std::make_unique<LogitLens>(spec, unembedding, dimensions);
}

}  // namespace headrace
