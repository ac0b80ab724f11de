// Adds a bias to the logits of single tokens; -infinity bans.
#include "engine/sampling/sampling_rule.h"

#include <cmath>

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) {
  return !inputs.params.logit_bias.empty();
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  for (const LogitBias& bias : inputs.params.logit_bias) {
    float* logit = candidates.FindLogit(bias.token_id);
    if (logit == nullptr) continue;
    *logit = std::isfinite(bias.bias)
                 ? ClampToFloat(static_cast<double>(*logit) + bias.bias)
                 : bias.bias;
  }
}

}  // namespace

constinit const SamplingRule kLogitBiasRule = {IsActive, Apply};

}  // namespace headrace
