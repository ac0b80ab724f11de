// Divides the logits by the temperature, after shifting the largest to 0: the
// softmax is the same, and no temperature can make a logit overflow upwards.
// What is banned, or has become impossible, leaves the candidates here.
#include "engine/sampling/sampling_rule.h"

#include <cmath>

namespace headrace {
namespace {

// Even at temperature 1 the shift is needed.
bool IsActive(const RuleInputs& /*inputs*/) { return true; }

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const size_t largest = candidates.Largest();
  const std::span<float> logits = candidates.logits();
  if (largest < logits.size()) {
    const float shift = logits[largest];
    const double scale = 1 / inputs.params.temperature;
    for (float& logit : logits) {
      logit = static_cast<float>((static_cast<double>(logit) - shift) * scale);
    }
  }
  candidates.KeepIf([logits](size_t i) { return std::isfinite(logits[i]); });
}

}  // namespace

constinit const SamplingRule kTemperatureRule = {IsActive, Apply};

}  // namespace headrace
