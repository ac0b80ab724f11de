// Keeps the tokens whose surprise is nearest to what the distribution lets
// expect, the shortest list that holds typical_p of the mass.
// Source: Meister et al. 2022, arXiv:2202.00666, section 4.
#include "engine/sampling/sampling_rule.h"

#include <cmath>
#include <vector>

#include "engine/sampling/prefix_select.h"

namespace headrace {
namespace {

bool IsActive(const RuleInputs& inputs) { return inputs.params.typical_p < 1; }

// E[-ln p] of p_i = weights_i / total; logits are ln(weights).
double Entropy(std::span<const float> logits, std::span<const float> weights,
               double total) {
  double weighted_logits = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weighted_logits += static_cast<double>(weights[i]) * logits[i];
  }
  return std::log(total) - weighted_logits / total;
}

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const std::span<const float> weights = candidates.weights();
  const std::span<const float> logits = candidates.logits();
  const double total = candidates.TotalWeight();
  const double entropy = Entropy(logits, weights, total);
  const double log_total = std::log(total);
  std::vector<float> distances(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    distances[i] =
        static_cast<float>(std::abs(log_total - logits[i] - entropy));
  }
  const PrefixEnd end =
      ShortestPrefix(distances, weights, inputs.params.typical_p * total);
  candidates.KeepIf([&](size_t i) { return end.Includes(distances[i], i); });
}

}  // namespace

constinit const SamplingRule kTypicalPRule = {IsActive, Apply};

}  // namespace headrace
