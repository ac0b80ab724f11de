// Element types and block formats of stored tensors. What a block means in
// numbers is in engine/tensor/block_formats.h.
#ifndef HEADRACE_ENGINE_TENSOR_DTYPE_H_
#define HEADRACE_ENGINE_TENSOR_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace headrace {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ4_Z,
  kQ8_Z,
  kQ8_C
};

// A row of a tensor is contiguous blocks of `elements` values in `bytes` bytes.
struct DTypeLayout {
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};

// Layouts as in ggml-common.h of ggml (2025-02) for the block formats. Ours are
// Q4_Z and Q8_Z, with a zero point beside each scale: what GPTQ and AWQ hold;
// and Q8_C, with one scale for each output channel, which is each row: what
// compressed-tensors holds. Each block of a row repeats it.
constexpr DTypeLayout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {"F32", 1, 4};
    case DType::kF16:
      return {"F16", 1, 2};
    case DType::kBF16:
      return {"BF16", 1, 2};
    case DType::kQ8_0:
      return {"Q8_0", 32, 34};
    case DType::kQ4_0:
      return {"Q4_0", 32, 18};
    case DType::kQ4_1:
      return {"Q4_1", 32, 20};
    case DType::kQ5_0:
      return {"Q5_0", 32, 22};
    case DType::kQ5_1:
      return {"Q5_1", 32, 24};
    case DType::kQ4_K:
      return {"Q4_K", 256, 144};
    case DType::kQ5_K:
      return {"Q5_K", 256, 176};
    case DType::kQ6_K:
      return {"Q6_K", 256, 210};
    case DType::kQ4_Z:
      return {"Q4_Z", 32, 19};
    case DType::kQ8_Z:
      return {"Q8_Z", 32, 35};
    case DType::kQ8_C:
      return {"Q8_C", 32, 36};
  }
  return {"?", 1, 0};
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TENSOR_DTYPE_H_
