// The embedding: the first value on the residual bus, a row for each token.
#ifndef HEADRACE_ENGINE_MODEL_TOKEN_EMBEDDING_H_
#define HEADRACE_ENGINE_MODEL_TOKEN_EMBEDDING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "engine/tensor/tensor_view.h"

namespace headrace {

// Reads rows where they lie in the model's file: it is too large to be kept a
// second time for the few rows that a step needs. Each row brings its
// neighbours in the file along (Linux maps 64 KiB around a page that it has),
// and in time all of it would be resident; so pages are given back after every
// few rows. Owned by the batch loop.
class TokenEmbedding {
 public:
  // `table` [vocab_size, hidden_size] outlives this. `release_pages`
  // gives pages of it back to the system.
  TokenEmbedding(TensorView table, std::function<void()> release_pages)
      : table_(std::move(table)), release_pages_(std::move(release_pages)) {}

  // Writes the row of `token`, 0 <= token < vocab_size.
  void Read(int32_t token, std::span<float> row);

 private:
  // 1 MiB at the most.
  static constexpr int kMaxRows = 16;

  TensorView table_;
  std::function<void()> release_pages_;
  int rows_read_ = 0;  // since pages were given back
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_TOKEN_EMBEDDING_H_
