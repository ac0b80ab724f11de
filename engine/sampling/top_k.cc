// Keeps the k most likely tokens; among equal logits the lower ids.
#include "engine/sampling/sampling_rule.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace headrace {
namespace {

// The k-th largest value, 1 <= k <= values.size().
float KthLargest(std::span<const float> values, size_t k) {
  // A small heap is passed by most values after one comparison.
  constexpr size_t kSmall = 1024;
  if (k <= kSmall) {
    std::vector<float> largest(k);
    std::partial_sort_copy(values.begin(), values.end(), largest.begin(),
                           largest.end(), std::greater<>());
    return largest.back();
  }
  std::vector<float> copy(values.begin(), values.end());
  const auto kth = copy.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(copy.begin(), kth, copy.end(), std::greater<>());
  return *kth;
}

bool IsActive(const RuleInputs& inputs) { return inputs.params.top_k > 0; }

void Apply(const RuleInputs& inputs, Candidates& candidates) {
  const std::span<const float> logits = candidates.logits();
  if (static_cast<uint64_t>(inputs.params.top_k) >= logits.size()) return;
  const auto k = static_cast<size_t>(inputs.params.top_k);
  const float kth = KthLargest(logits, k);
  size_t equals = k - static_cast<size_t>(std::count_if(
                          logits.begin(), logits.end(),
                          [kth](float logit) { return logit > kth; }));
  candidates.KeepIf([&, kth](size_t i) {
    if (logits[i] != kth) return logits[i] > kth;
    if (equals == 0) return false;
    --equals;
    return true;
  });
}

}  // namespace

constinit const SamplingRule kTopKRule = {IsActive, Apply};

}  // namespace headrace
