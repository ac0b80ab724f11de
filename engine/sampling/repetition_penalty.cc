// Makes what was said before less likely: tokens of the prompt and generated
// ones, once each, however often they came.
// Source: Keskar et al. 2019, arXiv:1909.05858, section 4.1; negative logits
// are multiplied, so that they too become less likely
// (huggingface/transformers#2302).
#include "engine/sampling/sampling_rule.h"

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) {
  return inputs.params.repetition_penalty != 1;
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const double penalty = inputs.params.repetition_penalty;
  for (const TokenHistory::Entry& entry : inputs.history.entries()) {
    float* logit = candidates.FindLogit(entry.token);
    if (logit == nullptr) continue;
    const auto value = static_cast<double>(*logit);
    *logit = ClampToFloat(value < 0 ? value * penalty : value / penalty);
  }
}

}  // namespace

constinit const SamplingRule kRepetitionPenaltyRule = {IsActive, Apply};

}  // namespace headrace
