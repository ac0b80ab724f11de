// Rotary position encoding: the application of given cosines and sines. What
// they are is the business of engine/rope.
#ifndef HEADRACE_ENGINE_OPS_ROTARY_H_
#define HEADRACE_ENGINE_OPS_ROTARY_H_

#include <cstdint>

#include "engine/base/thread_team.h"

namespace headrace {

// Which lanes of a head form a pair.
enum class PairLayout : uint8_t {
  kHalfSplit,    // (i, i + rotary_dim / 2)
  kInterleaved,  // (2i, 2i + 1)
};

struct RotaryInputs {
  float* heads = nullptr;  // [num_rows, num_heads, head_dim], rotated in place
  int64_t num_rows = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t row_stride = 0;  // floats from one row to the next
  int64_t rotary_dim = 0;  // even, <= head_dim; further lanes stay as they are
  const float* cos = nullptr;  // [num_rows, rotary_dim / 2]
  const float* sin = nullptr;  // [num_rows, rotary_dim / 2]
  PairLayout layout = PairLayout::kHalfSplit;
};

// Rotates every head of every row: for each pair (x, y) with its cosine c and
// sine s, x' = x*c - y*s and y' = y*c + x*s.
//
// Every product and sum is rounded by itself, as in transformers' eager code,
// so all instruction sets agree in every bit.
// Source: Su et al. 2021, arXiv:2104.09864, eq. 34; models that were trained
// with half-split pairs: transformers 4.57 modeling_llama.py rotate_half.
void ApplyRotary(ThreadTeam& team, const RotaryInputs& inputs);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ROTARY_H_
