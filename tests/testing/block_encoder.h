// Plain quantisers: floats to the bytes of each stored dtype. The inverse, in
// the product, is engine/tensor/block_formats.h.
#ifndef HEADRACE_TESTS_TESTING_BLOCK_ENCODER_H_
#define HEADRACE_TESTS_TESTING_BLOCK_ENCODER_H_

#include <span>
#include <string>

#include "engine/tensor/dtype.h"

namespace headrace {

// The bytes of `values` stored as `dtype`, little-endian; values.size() is a
// whole number of blocks. Each code is the one nearest to its value on the
// grid of the stored (rounded) scale:
//   Q8_0  d = max|v| / 127          codes -127..127
//   Q4_0  d = v_peak / -8           codes 0..15, v_peak: the largest in size
//   Q4_1  d = (max - min) / 15      codes 0..15, m = min
//   Q5_0, Q5_1  the same with codes of 5 bits
//   Q4_K, Q5_K  as Q4_1, Q5_1 with a minimum of 0 or less; scale and minimum
//         of a group: the nearest of 0..63 times 1/63 of the block's largest
//   Q6_K  as Q4_0 for 16 values with codes of 6 bits; scale: the nearest of
//         -128..127 times -1/128 of the block's largest in size
//   Q4_Z, Q8_Z  d = (max - min) / 15 or 255, zero = -min / d
// A block with a value that is not finite decodes to values that are not
// finite.
std::string EncodeBlocks(DType dtype, std::span<const float> values);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_BLOCK_ENCODER_H_
