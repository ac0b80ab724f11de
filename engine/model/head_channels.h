// The order of a head's channels: rows of queries and keys are shown as
// Hugging Face has them, however the file stores its pairs.
#ifndef HEADRACE_ENGINE_MODEL_HEAD_CHANNELS_H_
#define HEADRACE_ENGINE_MODEL_HEAD_CHANNELS_H_

#include <cstdint>

namespace headrace {

struct HeadRows {
  float* data = nullptr;
  int64_t num_rows = 0;
  int64_t row_stride = 0;  // floats from row to row
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // channels that rotate; the others keep their place
};

// Moves the pair (2i, 2i + 1) of each head to (i, i + rotary_dim / 2): from
// RopePairing::kInterleaved to kHalfSplit.
//
//   dst: [num_rows, num_heads * head_dim], dense
void ToHalfSplit(const HeadRows& rows, float* dst);
// The inverse, into rows that ToHalfSplit() read.
//
//   src: [num_rows, num_heads * head_dim], dense
void FromHalfSplit(const float* src, const HeadRows& rows);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_HEAD_CHANNELS_H_
