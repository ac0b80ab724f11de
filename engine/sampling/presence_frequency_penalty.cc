// Lowers the logits of generated tokens: by `presence_penalty` when a token
// came at all, and by `frequency_penalty` for each time. The prompt does not
// count.
// Source: OpenAI's API reference, "frequency and presence penalties".
#include "engine/sampling/sampling_rule.h"

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) {
  return inputs.params.presence_penalty != 0 ||
         inputs.params.frequency_penalty != 0;
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  for (const TokenHistory::Entry& entry : inputs.history.entries()) {
    if (entry.generated == 0) continue;
    float* logit = candidates.FindLogit(entry.token);
    if (logit == nullptr) continue;
    *logit = ClampToFloat(*logit - inputs.params.presence_penalty -
                          static_cast<double>(entry.generated) *
                              inputs.params.frequency_penalty);
  }
}

}  // namespace

constinit const SamplingRule kPresenceFrequencyPenaltyRule = {IsActive, Apply};

}  // namespace headrace
