// Bans the end tokens until enough tokens were generated.
#include "engine/sampling/sampling_rule.h"

#include <limits>

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) {
  return inputs.num_generated < inputs.min_tokens;
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  for (int32_t token : inputs.end_token_ids) {
    if (float* logit = candidates.FindLogit(token)) {
      *logit = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace

constinit const SamplingRule kMinTokensRule = {IsActive, Apply};

}  // namespace headrace
