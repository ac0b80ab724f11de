// Only the allowed ids may be sampled.
#include "engine/sampling/sampling_rule.h"

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) {
  return !inputs.params.allowed_token_ids.empty();
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  candidates.KeepOnly(inputs.params.allowed_token_ids);
}

}  // namespace

constinit const SamplingRule kAllowedTokensRule = {IsActive, Apply};

}  // namespace headrace
