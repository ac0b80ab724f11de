// Panels of one type, packed: what README.md calls a run.
#ifndef HEADRACE_ENGINE_OPS_PACKED_RUN_H_
#define HEADRACE_ENGINE_OPS_PACKED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/ops/kernels/packed_layout.h"
#include "engine/tensor/dtype.h"

namespace headrace {

// Immutable once packed, then thread-safe.
struct PackedRun {
  DType dtype = DType::kF32;
  int64_t in = 0;
  int64_t out = 0;
  // Shares what it is a part of: a piece of PackedMemory, or a mapped file.
  std::shared_ptr<const std::byte> data;

  int64_t num_panels() const {
    return (out + kernels::kPanelColumns - 1) / kernels::kPanelColumns;
  }
  int64_t bytes() const {
    return num_panels() * kernels::PanelBytes(dtype, in);
  }
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_RUN_H_
