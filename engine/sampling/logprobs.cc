#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/log/check.h"
#include "engine/sampling/exp.h"
#include "engine/sampling/sum.h"

namespace headrace {
namespace {

// Log probabilities and ranks of one position's distribution.
class Distribution {
 public:
  explicit Distribution(std::span<const float> logits)
      : logits_(logits),
        largest_(*std::max_element(logits.begin(), logits.end())),
        log_sum_(std::log(SumOfExponentials())) {}

  TokenLogprob Of(int32_t token) const {
    CHECK_GE(token, 0);
    CHECK_LT(static_cast<size_t>(token), logits_.size());
    return {token, Logprob(token), Rank(token)};
  }

  std::vector<TokenLogprob> Top(int32_t top_n) const;

 private:
  double SumOfExponentials() const;
  float Logprob(int32_t token) const {
    const double shifted = static_cast<double>(Logit(token)) - largest_;
    return static_cast<float>(shifted - log_sum_);
  }
  int32_t Rank(int32_t token) const;
  float Logit(int32_t token) const {
    return logits_[static_cast<size_t>(token)];
  }

  std::span<const float> logits_;
  double largest_;
  double log_sum_;  // ln of the sum of exp(logit - largest)
};

double Distribution::SumOfExponentials() const {
  constexpr size_t kBlockSize = 256;
  const auto largest = static_cast<float>(largest_);
  float block[kBlockSize];
  double sum = 0;
  for (size_t begin = 0; begin < logits_.size(); begin += kBlockSize) {
    const size_t size = std::min(kBlockSize, logits_.size() - begin);
    const std::span<const float> logits = logits_.subspan(begin, size);
    for (size_t i = 0; i < size; ++i) {
      block[i] = ExpOfNonPositive(logits[i] - largest);
    }
    sum += SumInFixedOrder({block, size});
  }
  return sum;
}

int32_t Distribution::Rank(int32_t token) const {
  const float logit = Logit(token);
  const auto own = static_cast<size_t>(token);
  int32_t rank = 1;
  for (float other : logits_) rank += other > logit ? 1 : 0;
  for (size_t i = 0; i < own; ++i) rank += logits_[i] == logit ? 1 : 0;
  return rank;
}

std::vector<TokenLogprob> Distribution::Top(int32_t top_n) const {
  const size_t count =
      std::min(static_cast<size_t>(std::max(top_n, 0)), logits_.size());
  std::vector<int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<int32_t> best(count);
  std::partial_sort_copy(ids.begin(), ids.end(), best.begin(), best.end(),
                         [this](int32_t a, int32_t b) {
                           if (Logit(a) != Logit(b)) return Logit(a) > Logit(b);
                           return a < b;
                         });
  std::vector<TokenLogprob> top;
  top.reserve(count);
  for (int32_t token : best) {
    const auto rank = static_cast<int32_t>(top.size()) + 1;
    top.push_back({token, Logprob(token), rank});
  }
  return top;
}

}  // namespace

PositionLogprobs ComputeLogprobs(std::span<const float> logits,
                                 int64_t position, int32_t token,
                                 const LogprobsOptions& options) {
  const Distribution distribution(logits);
  PositionLogprobs logprobs = {.position = position,
                               .token = distribution.Of(token)};
  if (options.top_n > 0) logprobs.top = distribution.Top(options.top_n);
  for (int32_t wanted : options.of_token_ids) {
    logprobs.of_token_ids.push_back(distribution.Of(wanted));
  }
  return logprobs;
}

}  // namespace headrace
