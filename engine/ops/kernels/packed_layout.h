// Where the bytes of packed weights and of quantised rows are; described in
// engine/ops/README.md. Shared by packing and by the kernels.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_
#define HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "engine/tensor/dtype.h"

namespace headrace::kernels {

constexpr int64_t kPanelColumns = 64;  // output columns packed together
constexpr int64_t kGroupSize = 32;     // k that share a scale
constexpr int64_t kBlockSize = 512;    // k of one chain of the exact mode

constexpr bool IsQuantized(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return false;
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
      return true;
  }
  return false;
}

constexpr bool IsNibbles(DType dtype) {
  return dtype == DType::kQ4_0 || dtype == DType::kQ4_1;
}

constexpr bool HasMinimum(DType dtype) { return dtype == DType::kQ4_1; }

// Bytes before a packed group's numbers: scales, then minima, both F16.
constexpr int64_t GroupHeaderBytes(DType dtype) {
  return kPanelColumns * 2 * (HasMinimum(dtype) ? 2 : 1);
}

// Bytes of 32 k of a panel, of a quantised type.
constexpr int64_t GroupBytes(DType dtype) {
  return GroupHeaderBytes(dtype) +
         kPanelColumns * kGroupSize / (IsNibbles(dtype) ? 2 : 1);
}

constexpr int64_t PanelBytes(DType dtype, int64_t in) {
  return IsQuantized(dtype) ? in / kGroupSize * GroupBytes(dtype)
                            : in * kPanelColumns * LayoutOf(dtype).bytes;
}

// One panel: 64 output columns of all `in` k.
struct Panel {
  DType dtype = DType::kF32;
  int64_t in = 0;
  const std::byte* data = nullptr;
};

// 32 values of a row in the fast mode.
struct alignas(16) QuantizedGroup {
  int8_t values[kGroupSize];
  float scale;       // sa
  float scaled_sum;  // fl(sa * float(sum of values))
  // What a dot product with offset weights starts from: -offset * sum.
  int32_t start_offset_8;
  int32_t start_offset_128;
};
static_assert(sizeof(QuantizedGroup) == 48);

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_PACKED_LAYOUT_H_
