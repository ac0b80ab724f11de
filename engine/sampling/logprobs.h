// Log probabilities of the model's own distribution: natural logs of its
// softmax before any sampling rule, over all the logits that it has (rows of a
// padded vocabulary included).
#ifndef HEADRACE_ENGINE_SAMPLING_LOGPROBS_H_
#define HEADRACE_ENGINE_SAMPLING_LOGPROBS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace headrace {

// Which log probabilities to return; natural logs of the model's own softmax.
struct LogprobsOptions {
  int32_t top_n = 0;     // most likely tokens beside the sampled one
  bool enabled = false;  // logprob and rank of the sampled token
  bool prompt = false;   // the same for every prompt token but the first
  std::vector<int32_t> of_token_ids;  // these tokens at every position
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  int32_t rank = 0;  // 1 = most likely; ties count as the lower id first
};

struct PositionLogprobs {
  int64_t position = 0;  // of the token that is predicted
  TokenLogprob token;    // the actual token
  std::vector<TokenLogprob> top;
  std::vector<TokenLogprob> of_token_ids;
};

// Log probabilities at one position.
//
//   logits:   [vocab_size]; finite
//   position: of the token that the logits predict
//   token:    the actual token; < vocab_size, as are options.of_token_ids
//   options:  top_n above vocab_size counts as vocab_size
//
// The sum of exponentials is float64 in a fixed order: a position's result
// depends on its logits only, to the last bit.
PositionLogprobs ComputeLogprobs(std::span<const float> logits,
                                 int64_t position, int32_t token,
                                 const LogprobsOptions& options);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_LOGPROBS_H_
