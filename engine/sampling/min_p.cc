// Keeps the tokens that are at least min_p times as likely as the likeliest.
// Source: Nguyen et al. 2024, arXiv:2407.01082, section 3.
#include "engine/sampling/sampling_rule.h"

#include <cmath>

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) { return inputs.params.min_p > 0; }

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const std::span<const float> logits = candidates.logits();
  // In logits, where 1 keeps exactly the likeliest and its equals.
  const double floor =
      logits[candidates.Largest()] + std::log(inputs.params.min_p);
  candidates.KeepIf([&](size_t i) { return logits[i] >= floor; });
}

}  // namespace

constinit const SamplingRule kMinPRule = {IsActive, Apply};

}  // namespace headrace
