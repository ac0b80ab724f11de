#include "engine/model/head_channels.h"

#include <algorithm>

namespace headrace {

void ToHalfSplit(const HeadRows& rows, float* dst) {
  const int64_t half = rows.rotary_dim / 2;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const float* src = rows.data + row * rows.row_stride;
    for (int64_t head = 0; head < rows.num_heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        dst[i] = src[2 * i];
        dst[i + half] = src[2 * i + 1];
      }
      std::copy(src + rows.rotary_dim, src + rows.head_dim,
                dst + rows.rotary_dim);
      src += rows.head_dim;
      dst += rows.head_dim;
    }
  }
}

void FromHalfSplit(const float* src, const HeadRows& rows) {
  const int64_t half = rows.rotary_dim / 2;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    float* dst = rows.data + row * rows.row_stride;
    for (int64_t head = 0; head < rows.num_heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        dst[2 * i] = src[i];
        dst[2 * i + 1] = src[i + half];
      }
      std::copy(src + rows.rotary_dim, src + rows.head_dim,
                dst + rows.rotary_dim);
      src += rows.head_dim;
      dst += rows.head_dim;
    }
  }
}

}  // namespace headrace
