// From the residual stream to the vocabulary: what readers of a pass need to
// say what a row, or a part of it, means in tokens.
#ifndef HEADRACE_ENGINE_MODEL_UNEMBEDDING_H_
#define HEADRACE_ENGINE_MODEL_UNEMBEDDING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace headrace {

// Owned by the batch loop; may be used while a pass shows its rows.
class Unembedding {
 public:
  virtual ~Unembedding() = default;

  // Final norm and unembedding of rows [hidden_size], in tiles: take(index of
  // the first row, logits [n, vocab_size], n). The norm's statistics are those
  // of `statistics`, as many rows; with the rows themselves, equal, bit for
  // bit, to what the pass itself would make of such rows.
  using TakeLogits =
      absl::FunctionRef<void(size_t, std::span<const float>, size_t)>;
  virtual void Unembed(std::span<const std::span<const float>> rows,
                       std::span<const std::span<const float>> statistics,
                       TakeLogits take) = 0;

  // u, [hidden_size]: final norm's weight times the token's row of the
  // unembedding. A token's logit is (row . u) / scale of the final norm.
  virtual std::vector<float> TokenDirection(int32_t token) const = 0;
  // The direction in the layer's heads, [heads * head_dim], whose product with
  // z is what attention writes along `direction`: o_proj^T direction.
  virtual std::vector<float> HeadDirection(
      int32_t layer, std::span<const float> direction) const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_UNEMBEDDING_H_
