// Slow, plain float64 sampling: every rule as its definition reads, by sorting
// whole lists. What engine/sampling is compared with.
#ifndef HEADRACE_TESTS_REFERENCE_SAMPLING_ORACLE_H_
#define HEADRACE_TESTS_REFERENCE_SAMPLING_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace headrace::reference {

struct SamplingCase {
  SamplingParams params;
  std::vector<int32_t> prompt;
  std::vector<int32_t> generated;
  std::vector<int32_t> end_token_ids;
  int64_t min_tokens = 0;
  size_t num_real_tokens = 0;
};

inline constexpr double kBanned = -std::numeric_limits<double>::infinity();

template <typename Values>
bool Contains(const Values& values, int32_t token) {
  return std::find(values.begin(), values.end(), token) != values.end();
}

// Logits after every rule up to min_tokens.
inline std::vector<double> RuledLogits(const std::vector<float>& logits,
                                       const SamplingCase& sampling) {
  const SamplingParams& params = sampling.params;
  std::vector<double> ruled(logits.begin(), logits.end());
  for (size_t id = 0; id < ruled.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (id >= sampling.num_real_tokens ||
        (!params.allowed_token_ids.empty() &&
         !Contains(params.allowed_token_ids, token))) {
      ruled[id] = kBanned;
    }
    for (const LogitBias& bias : params.logit_bias) {
      if (bias.token_id == token) ruled[id] += bias.bias;
    }
    const auto times = static_cast<double>(std::count(
        sampling.generated.begin(), sampling.generated.end(), token));
    if (times > 0 || Contains(sampling.prompt, token)) {
      ruled[id] = ruled[id] < 0 ? ruled[id] * params.repetition_penalty
                                : ruled[id] / params.repetition_penalty;
    }
    if (times > 0) ruled[id] -= params.presence_penalty;
    ruled[id] -= times * params.frequency_penalty;
    if (static_cast<int64_t>(sampling.generated.size()) < sampling.min_tokens &&
        Contains(sampling.end_token_ids, token)) {
      ruled[id] = kBanned;
    }
  }
  return ruled;
}

inline void Normalize(std::vector<double>& probabilities) {
  const double sum =
      std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
}

// Ids in the order of ascending key, lower ids first among equals; those
// without probability left out.
inline std::vector<size_t> SortedBy(const std::vector<double>& keys,
                                    const std::vector<double>& probabilities) {
  std::vector<size_t> ids;
  for (size_t id = 0; id < keys.size(); ++id) {
    if (probabilities[id] > 0) ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return ids;
}

// Zeroes all but the shortest prefix of `order` that holds `mass`.
inline void KeepMass(const std::vector<size_t>& order, double mass,
                     std::vector<double>& probabilities) {
  double sum = 0;
  for (size_t id : order) {
    const double probability = probabilities[id];
    if (sum >= mass) probabilities[id] = 0;
    sum += probability;
  }
  Normalize(probabilities);
}

// The distribution that is drawn from; all zero when nothing is left. Not for
// greedy settings.
inline std::vector<double> Probabilities(const std::vector<float>& logits,
                                         const SamplingCase& sampling) {
  const SamplingParams& params = sampling.params;
  const std::vector<double> ruled = RuledLogits(logits, sampling);
  const double largest = *std::max_element(ruled.begin(), ruled.end());
  std::vector<double> probabilities(ruled.size(), 0.0);
  if (largest == kBanned) return probabilities;
  std::vector<double> descending(ruled.size());
  for (size_t id = 0; id < ruled.size(); ++id) {
    descending[id] = -ruled[id];
    probabilities[id] = std::exp((ruled[id] - largest) / params.temperature);
  }
  Normalize(probabilities);
  if (params.top_k > 0) {
    const std::vector<size_t> order = SortedBy(descending, probabilities);
    for (auto i = static_cast<size_t>(params.top_k); i < order.size(); ++i) {
      probabilities[order[i]] = 0;
    }
    Normalize(probabilities);
  }
  if (params.typical_p < 1) {
    double entropy = 0;
    for (double p : probabilities) entropy -= p > 0 ? p * std::log(p) : 0;
    std::vector<double> distance(ruled.size());
    for (size_t id = 0; id < ruled.size(); ++id) {
      distance[id] = std::abs(-std::log(probabilities[id]) - entropy);
    }
    KeepMass(SortedBy(distance, probabilities), params.typical_p,
             probabilities);
  }
  if (params.top_p < 1) {
    KeepMass(SortedBy(descending, probabilities), params.top_p, probabilities);
  }
  const double floor = params.min_p * *std::max_element(probabilities.begin(),
                                                        probabilities.end());
  for (double& p : probabilities) p = p < floor ? 0 : p;
  Normalize(probabilities);
  return probabilities;
}

}  // namespace headrace::reference

#endif  // HEADRACE_TESTS_REFERENCE_SAMPLING_ORACLE_H_
