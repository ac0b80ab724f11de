// Chooses a sequence's next token: applies the rules that its settings ask
// for, in a fixed order, and draws.
#ifndef HEADRACE_ENGINE_SAMPLING_SAMPLER_H_
#define HEADRACE_ENGINE_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/sampling_params.h"
#include "engine/sampling/token_history.h"

namespace headrace {

struct SamplerOptions {
  int32_t choice = 0;  // each choice of one seed has its own random stream
  // Ids from here on have no piece in the tokenizer: never sampled.
  int64_t num_real_tokens = 0;
  // Not sampled before `min_tokens` were generated.
  std::vector<int32_t> end_token_ids;
  int64_t min_tokens = 0;
};

// One sequence's sampler. The token at step t depends on the settings, the
// seed, the choice, t, the tokens before it and the logits, and on nothing
// else. Thread-compatible.
class Sampler {
 public:
  // `params` are valid (ValidateSamplingParams).
  Sampler(SamplingParams params, SamplerOptions options,
          std::span<const int32_t> prompt);

  // The next token. Changes nothing: the same until Accept().
  //
  //   logits:  [vocab_size], the model's own
  //   scratch: any; one per thread saves memory
  //
  // Greedy settings take the largest logit, the lowest id among equals. A NaN
  // is never taken.
  //
  // Errors: INVALID_ARGUMENT when the settings leave no token to sample, or no
  // logit is a number.
  absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                                 Candidates& scratch) const;

  // Appends a token to what was generated, be it the one sampled last or one
  // that is replayed.
  void Accept(int32_t token);

  int64_t num_generated() const { return num_generated_; }

 private:
  SamplingParams params_;  // allowed_token_ids ascending, each once
  SamplerOptions options_;
  bool keeps_history_;
  TokenHistory history_;
  int64_t num_generated_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_SAMPLER_H_
