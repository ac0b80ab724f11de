#include "engine/sampling/candidates.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/sampling/exp.h"
#include "engine/sampling/sum.h"

namespace headrace {
namespace {

// Weights are summed in blocks of this many, so that a draw can skip blocks.
constexpr size_t kBlockSize = 512;

std::span<const float> Block(std::span<const float> weights, size_t begin) {
  return weights.subspan(begin, std::min(kBlockSize, weights.size() - begin));
}

}  // namespace

void Candidates::Reset(std::span<const float> logits) {
  is_dense_ = true;
  has_weights_ = false;
  logits_.assign(logits.begin(), logits.end());
}

float* Candidates::FindLogit(int32_t token) {
  if (is_dense_) {
    const bool is_in = token >= 0 && static_cast<size_t>(token) < size();
    return is_in ? &logits_[static_cast<size_t>(token)] : nullptr;
  }
  const auto found = std::lower_bound(ids_.begin(), ids_.end(), token);
  if (found == ids_.end() || *found != token) return nullptr;
  return &logits_[static_cast<size_t>(found - ids_.begin())];
}

std::span<const float> Candidates::weights() {
  if (has_weights_) return weights_;
  weights_.resize(size());
  std::transform(logits_.begin(), logits_.end(), weights_.begin(),
                 ExpOfNonPositive);
  has_weights_ = true;
  return weights_;
}

double Candidates::TotalWeight() {
  const std::span<const float> weights = this->weights();
  double total = 0;
  for (size_t begin = 0; begin < weights.size(); begin += kBlockSize) {
    total += SumInFixedOrder(Block(weights, begin));
  }
  return total;
}

size_t Candidates::Largest() const {
  size_t largest = size();
  float value = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < size(); ++i) {
    if (logits_[i] > value) {
      value = logits_[i];
      largest = i;
    }
  }
  return largest;
}

void Candidates::KeepOnly(std::span<const int32_t> ids) {
  size_t kept = 0;
  std::vector<int32_t> kept_ids;
  kept_ids.reserve(ids.size());
  for (int32_t token : ids) {
    const float* logit = FindLogit(token);
    if (logit == nullptr) continue;
    // Ascending on both sides: never written before it is read.
    logits_[kept++] = *logit;
    kept_ids.push_back(token);
  }
  ids_ = std::move(kept_ids);
  is_dense_ = false;
  has_weights_ = false;
  logits_.resize(kept);
}

int32_t Candidates::Draw(double point) {
  const std::span<const float> weights = this->weights();
  const double target = point * TotalWeight();
  // The first block that passes the target, or the last with any weight.
  size_t chosen = 0;
  double before_chosen = 0;
  double sum = 0;
  for (size_t begin = 0; begin < weights.size() && sum <= target;
       begin += kBlockSize) {
    const double block_sum = SumInFixedOrder(Block(weights, begin));
    if (block_sum <= 0) continue;
    chosen = begin;
    before_chosen = sum;
    sum += block_sum;
  }
  // Within it likewise.
  size_t drawn = chosen;
  sum = before_chosen;
  const std::span<const float> block = Block(weights, chosen);
  for (size_t i = 0; i < block.size() && sum <= target; ++i) {
    if (block[i] <= 0) continue;
    drawn = chosen + i;
    sum += block[i];
  }
  return id(drawn);
}

void Candidates::MakeSparse() {
  if (!is_dense_) return;
  ids_.resize(size());
  std::iota(ids_.begin(), ids_.end(), 0);
  is_dense_ = false;
}

void Candidates::Truncate(size_t size) {
  ids_.resize(size);
  logits_.resize(size);
  if (has_weights_) weights_.resize(size);
}

}  // namespace headrace
