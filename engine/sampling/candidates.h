// The tokens that may still be sampled, with their logits: what the rules work
// on, and what is drawn from in the end.
#ifndef HEADRACE_ENGINE_SAMPLING_CANDIDATES_H_
#define HEADRACE_ENGINE_SAMPLING_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace {

// Always in ascending order of id. Buffers are kept from one use to the next.
// Owned by the thread that samples.
class Candidates {
 public:
  // All of logits.size() tokens, id = index.
  void Reset(std::span<const float> logits);

  size_t size() const { return logits_.size(); }
  bool empty() const { return logits_.empty(); }
  int32_t id(size_t index) const {
    return is_dense_ ? static_cast<int32_t>(index) : ids_[index];
  }

  // Not to be changed after weights() was called.
  std::span<float> logits() { return logits_; }
  std::span<const float> logits() const { return logits_; }
  // The logit of a token; null when it is not a candidate.
  float* FindLogit(int32_t token);

  // exp(logit): probabilities up to a common factor. Logits are at most 0 and
  // finite by then (the temperature rule). Computed at the first call; what is
  // taken away later does not change the others.
  std::span<const float> weights();
  double TotalWeight();

  // Index of the largest logit, the lowest id among equals; size() when there
  // is none above -infinity. NaN is never the largest.
  size_t Largest() const;

  // Takes away all for which keep(index) is false.
  template <typename Keep>
  void KeepIf(const Keep& keep);
  // Takes away all but `ids`, which ascend.
  void KeepOnly(std::span<const int32_t> ids);

  // The token at `point` in [0, 1) of the total weight, in order of id.
  int32_t Draw(double point);

 private:
  void MakeSparse();
  void Truncate(size_t size);

  bool is_dense_ = true;  // ids_ is unused: id(i) == i
  bool has_weights_ = false;
  std::vector<int32_t> ids_;
  std::vector<float> logits_;
  std::vector<float> weights_;  // [size()] when has_weights_
};

template <typename Keep>
void Candidates::KeepIf(const Keep& keep) {
  size_t kept = 0;
  while (kept < size() && keep(kept)) ++kept;
  if (kept == size()) return;
  MakeSparse();
  // Without a branch: what is kept follows no pattern that could be predicted.
  for (size_t i = kept + 1; i < size(); ++i) {
    const bool keeps = keep(i);
    ids_[kept] = ids_[i];
    logits_[kept] = logits_[i];
    if (has_weights_) weights_[kept] = weights_[i];
    kept += keeps ? 1 : 0;
  }
  Truncate(kept);
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_CANDIDATES_H_
