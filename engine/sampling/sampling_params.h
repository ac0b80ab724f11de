// How tokens are chosen: one request's settings, under vLLM's names. Defaults
// here are the only defaults.
#ifndef HEADRACE_ENGINE_SAMPLING_SAMPLING_PARAMS_H_
#define HEADRACE_ENGINE_SAMPLING_SAMPLING_PARAMS_H_

#include <cstdint>
#include <vector>

#include "engine/base/field_violation.h"

namespace headrace {

struct LogitBias {
  int32_t token_id = 0;
  float bias = 0;  // finite, or -infinity to ban
};

struct SamplingParams {
  double temperature = 1.0;  // >= 0; 0 (or one that underflows) is greedy
  int64_t top_k = 0;         // 0, or above the vocabulary: off
  double top_p = 1.0;        // (0, 1]
  double min_p = 0.0;        // [0, 1]
  double typical_p = 1.0;    // (0, 1]
  double repetition_penalty = 1.0;  // > 0
  double presence_penalty = 0.0;    // finite
  double frequency_penalty = 0.0;   // finite
  std::vector<LogitBias> logit_bias;
  std::vector<int32_t> allowed_token_ids;  // empty: all
  uint64_t seed = 0;                       // resolved; never random in here
};

// True when the most likely token is taken and nothing is drawn: temperature 0,
// or one whose float32 is 0 or denormal, so that dividing by it overflows.
bool IsGreedy(const SamplingParams& params);

// Every violation of `params` at once; empty when it is valid. Token ids must
// be in [0, vocab_size); an id may be biased only once.
std::vector<FieldViolation> ValidateSamplingParams(const SamplingParams& params,
                                                   int64_t vocab_size);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_SAMPLING_PARAMS_H_
