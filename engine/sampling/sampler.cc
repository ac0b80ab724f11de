#include "engine/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "engine/sampling/random.h"
#include "engine/sampling/sampling_rule.h"

namespace headrace {
namespace {

// The rules in the order of application. These move single logits,
constexpr std::array kLogitRules = {
    &kAllowedTokensRule,             // allowed_tokens.cc
    &kLogitBiasRule,                 // logit_bias.cc
    &kRepetitionPenaltyRule,         // repetition_penalty.cc
    &kPresenceFrequencyPenaltyRule,  // presence_frequency_penalty.cc
    &kMinTokensRule,                 // min_tokens.cc
};

// and these shape the distribution; greedy sampling does without them.
constexpr std::array kDistributionRules = {
    &kTemperatureRule,  // temperature.cc
    &kTopKRule,         // top_k.cc
    &kTypicalPRule,     // typical_p.cc
    &kTopPRule,         // top_p.cc
    &kMinPRule,         // min_p.cc
};

void ApplyRules(std::span<const SamplingRule* const> rules,
                const RuleInputs& inputs, Candidates& candidates) {
  for (const SamplingRule* rule : rules) {
    if (candidates.empty()) return;
    if (rule->is_active(inputs)) rule->apply(inputs, candidates);
  }
}

absl::Status NothingToSample() {
  return absl::InvalidArgumentError(
      "no token can be sampled: allowed_token_ids, logit_bias and min_tokens "
      "ban every one, or no logit is a number");
}

absl::StatusOr<int32_t> TakeLargest(const Candidates& candidates) {
  const size_t largest = candidates.Largest();
  if (largest == candidates.size()) return NothingToSample();
  return candidates.id(largest);
}

bool NeedsHistory(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

}  // namespace

float ClampToFloat(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kLargest, kLargest));
}

Sampler::Sampler(SamplingParams params, SamplerOptions options,
                 std::span<const int32_t> prompt)
    : params_(std::move(params)),
      options_(std::move(options)),
      keeps_history_(NeedsHistory(params_)) {
  std::vector<int32_t>& allowed = params_.allowed_token_ids;
  std::sort(allowed.begin(), allowed.end());
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  if (keeps_history_) history_.AddPrompt(prompt);
}

absl::StatusOr<int32_t> Sampler::Sample(std::span<const float> logits,
                                        Candidates& scratch) const {
  const auto num_real = static_cast<size_t>(options_.num_real_tokens);
  scratch.Reset(logits.first(std::min(num_real, logits.size())));
  const RuleInputs inputs = {.params = params_,
                             .history = history_,
                             .end_token_ids = options_.end_token_ids,
                             .min_tokens = options_.min_tokens,
                             .num_generated = num_generated_};
  ApplyRules(kLogitRules, inputs, scratch);
  if (IsGreedy(params_)) return TakeLargest(scratch);
  ApplyRules(kDistributionRules, inputs, scratch);
  if (scratch.empty()) return NothingToSample();
  return scratch.Draw(
      UniformDraw(params_.seed, options_.choice, num_generated_));
}

void Sampler::Accept(int32_t token) {
  ++num_generated_;
  if (keeps_history_) history_.AddGenerated(token);
}

}  // namespace headrace
