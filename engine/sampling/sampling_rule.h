// The table of sampling rules: what stands between a model's logits and the
// draw. A rule is one file that defines its SamplingRule, a declaration here
// and a line in one of the two tables of sampler.cc, whose order is the order
// of application.
#ifndef HEADRACE_ENGINE_SAMPLING_SAMPLING_RULE_H_
#define HEADRACE_ENGINE_SAMPLING_SAMPLING_RULE_H_

#include <cstdint>
#include <span>

#include "engine/sampling/candidates.h"
#include "engine/sampling/sampling_params.h"
#include "engine/sampling/token_history.h"

namespace headrace {

// What a rule may look at.
struct RuleInputs {
  const SamplingParams& params;  // allowed_token_ids ascend, each once
  const TokenHistory& history;   // empty unless a penalty is in use
  std::span<const int32_t> end_token_ids;
  int64_t min_tokens = 0;
  int64_t num_generated = 0;
};

struct SamplingRule {
  bool (*is_active)(const RuleInputs& inputs);
  // Leaves at least one candidate, unless it bans by id.
  void (*apply)(const RuleInputs& inputs, Candidates& candidates);
};

extern const SamplingRule kAllowedTokensRule;
extern const SamplingRule kLogitBiasRule;
extern const SamplingRule kRepetitionPenaltyRule;
extern const SamplingRule kPresenceFrequencyPenaltyRule;
extern const SamplingRule kMinTokensRule;
extern const SamplingRule kTemperatureRule;
extern const SamplingRule kTopKRule;
extern const SamplingRule kTypicalPRule;
extern const SamplingRule kTopPRule;
extern const SamplingRule kMinPRule;

// `value` as a float32; what is too large becomes the largest finite one, so
// that penalties never make a logit infinite.
float ClampToFloat(double value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_SAMPLING_RULE_H_
