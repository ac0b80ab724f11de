// How large the integers of keys, values, queries and weights of values are:
// sums of their products fit 32 bits. See engine/ops/ATTENTION.md.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_H_

#include <cstdint>

#include "engine/tensor/kv_layout.h"

namespace headrace::kernels {

inline constexpr int64_t kInt16Limit = 2896;  // of keys, values and queries
inline constexpr int64_t kInt8Limit = 127;    // of keys and values
inline constexpr int64_t kWeightLimit = 11585;
static_assert(KvLayout::kMaxIntegerHeadDim * kInt16Limit * kInt16Limit <
              (int64_t{1} << 31));
static_assert(64 * kWeightLimit * kInt16Limit < (int64_t{1} << 31));

constexpr int64_t KvLimit(KvCacheDtype dtype) {
  return dtype == KvCacheDtype::kInt16 ? kInt16Limit : kInt8Limit;
}

// Rounds rows [num_rows, size], `size` a multiple of 16 and src 64-byte
// aligned, to integers of at most `limit` that times the scale of their row are
// what they were:
//
//   scale = fl(absmax * fl(1 / limit));  dst = round_half_to_even(src *
//   fl(limit / absmax))
//
// Below an absmax of 2^-100 all is 0. A NaN or an infinity makes the scale
// not finite and the integers 0, so that no product with them is finite.
//
//   dst: [num_rows, size], scales: [num_rows]
void QuantizeToInt16(const float* src, int64_t size, int64_t num_rows,
                     int64_t limit, int16_t* dst, float* scales);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_KV_INTEGERS_H_
