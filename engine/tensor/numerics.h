// The two ways products are computed, stated in every reply.
#ifndef HEADRACE_ENGINE_TENSOR_NUMERICS_H_
#define HEADRACE_ENGINE_TENSOR_NUMERICS_H_

#include <cstdint>

namespace headrace {

enum class Numerics : uint8_t {
  kExact,  // float32 activations on dequantised weights: what the file says
  kFast,   // int8 activations (groups of 32) on weights of 4 to 8 bits
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_NUMERICS_H_
