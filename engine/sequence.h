// One open sequence: what was asked, its tokens so far, and how far it has been
// computed.
#ifndef HEADRACE_ENGINE_SEQUENCE_H_
#define HEADRACE_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/batch.h"
#include "engine/capture/derived_quantity.h"
#include "engine/sampling/sampler.h"

namespace headrace {

// Owned by the batch loop.
class Sequence {
 public:
  Sequence(SequenceOptions options, int64_t cached_rows, Sampler sampler)
      : options_(std::move(options)),
        tokens_(options_.prompt),
        next_row_(cached_rows),
        reported_rows_(cached_rows),
        sampler_(std::move(sampler)) {
    report_.interventions_applied.resize(options_.interventions.size());
  }

  const SequenceOptions& options() const { return options_; }
  int64_t prompt_length() const {
    return static_cast<int64_t>(options_.prompt.size());
  }
  // Prompt and generated.
  std::span<const int32_t> tokens() const { return tokens_; }
  // Position of the first row that is not computed yet.
  int64_t next_row() const { return next_row_; }
  int64_t rows_left() const {
    return static_cast<int64_t>(tokens_.size()) - next_row_;
  }
  void Advance(int64_t num_rows) {
    next_row_ += num_rows;
    reported_rows_ = std::max(reported_rows_, next_row_);
  }
  // Leading rows that need not be, or were, handed over: a row that is computed
  // again is not reported again.
  int64_t reported_rows() const { return reported_rows_; }
  // Only so many rows have keys and values any more.
  void Rewind(int64_t num_rows) {
    next_row_ = num_rows;
    reported_rows_ = std::max(reported_rows_, num_rows);
  }
  // Whether the token that was sampled last ends the sequence.
  bool ended() const {
    const std::vector<int32_t>& ids = options_.end_token_ids;
    return sampler_.num_generated() > options_.min_tokens &&
           std::find(ids.begin(), ids.end(), tokens_.back()) != ids.end();
  }
  // Takes the token that was sampled.
  void Append(int32_t token) {
    tokens_.push_back(token);
    sampler_.Accept(token);
  }

  const Sampler& sampler() const { return sampler_; }
  // One per options().capture.derived.
  std::vector<std::unique_ptr<DerivedQuantity>>& derived() { return derived_; }
  SequenceReport& report() { return report_; }
  const SequenceReport& report() const { return report_; }

 private:
  SequenceOptions options_;
  std::vector<int32_t> tokens_;
  int64_t next_row_;
  int64_t reported_rows_;
  Sampler sampler_;
  std::vector<std::unique_ptr<DerivedQuantity>> derived_;
  SequenceReport report_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SEQUENCE_H_
