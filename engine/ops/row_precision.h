// How finely rows of activations are quantised in the fast mode.
#ifndef HEADRACE_ENGINE_OPS_ROW_PRECISION_H_
#define HEADRACE_ENGINE_OPS_ROW_PRECISION_H_

#include <cstdint>

namespace headrace {

enum class RowPrecision : uint8_t {
  kInt8,
  // Each row as two: itself, and what its int8 values leave of it. Their
  // products add up to one with some 15 bits of the row.
  kTwiceInt8,
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ROW_PRECISION_H_
