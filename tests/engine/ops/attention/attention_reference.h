// Two slow models of Attention(), row by row: one in float64 with the textbook
// formula, and one in float32 that follows the written order of every sum and
// so gives the same bits as the kernels.
#ifndef HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_REFERENCE_H_
#define HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/tensor/kv_cache_dtype.h"

namespace headrace::testing {

// One sequence with all its rows, dense. Keys and values of kBF16 are taken to
// be rounded already.
struct AttentionCase {
  int64_t num_rows = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  float scale = 0;
  std::optional<int64_t> sliding_window;
  KvCacheDtype dtype = KvCacheDtype::kF32;
  std::vector<float> q;  // [num_rows, num_attention_heads, head_dim]
  std::vector<float> k;  // [num_rows, num_key_value_heads, head_dim]
  std::vector<float> v;  // [num_rows, num_key_value_heads, head_dim]
};

struct CaseShape {
  int64_t num_rows = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  std::optional<int64_t> sliding_window = std::nullopt;
};

// Random rows, the same for the same seed; scores have a deviation of 1.5, so
// that single keys dominate now and then.
AttentionCase MakeAttentionCase(const CaseShape& shape, uint32_t seed);

// The result of query head `head` of row `row`: [head_dim].
std::vector<double> AttentionInFloat64(const AttentionCase& c, int64_t row,
                                       int64_t head);
std::vector<float> AttentionInOrder(const AttentionCase& c, int64_t row,
                                    int64_t head);

// The scores of the keys that the row sees, ascending.
std::vector<float> ScoresInOrder(const AttentionCase& c, int64_t row,
                                 int64_t head);

// exp(x) for x <= 0, operation by operation as the kernels compute it.
float ExpNonPositiveInOrder(float x);

// Lanes i and i + 8, then i + 4, i + 2, i + 1.
float SumOfLanesInOrder(const float* lanes);

}  // namespace headrace::testing

#endif  // HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ATTENTION_REFERENCE_H_
