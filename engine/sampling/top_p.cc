// Nucleus sampling: keeps the most likely tokens, the fewest that hold top_p
// of the mass and at least one; among equals the lower ids.
// Source: Holtzman et al. 2020, arXiv:1904.09751, section 3.1.
#include "engine/sampling/sampling_rule.h"

#include <vector>

#include "engine/sampling/prefix_select.h"

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) { return inputs.params.top_p < 1; }

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const double total = candidates.TotalWeight();
  const double top_p = inputs.params.top_p;
  // All tokens below the mean of what may be left out together hold less than
  // that, so none of them is in the nucleus. Few pass this in practice.
  const double floor =
      (1 - top_p) * total / static_cast<double>(candidates.size());
  std::span<const float> weights = candidates.weights();
  candidates.KeepIf([&](size_t i) { return weights[i] >= floor; });

  weights = candidates.weights();
  const std::span<const float> logits = candidates.logits();
  std::vector<float> keys(logits.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = 0.0F - logits[i];
  const PrefixEnd end = ShortestPrefix(keys, weights, top_p * total);
  candidates.KeepIf([&](size_t i) { return end.Includes(keys[i], i); });
}

}  // namespace

constinit const SamplingRule kTopPRule = {IsActive, Apply};

}  // namespace headrace
