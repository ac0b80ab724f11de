// The one packed layout of a weight, described in README.md: panels of 64
// output columns, in the order in which the kernels read them.
#ifndef HEADRACE_ENGINE_OPS_PACKED_PANELS_H_
#define HEADRACE_ENGINE_OPS_PACKED_PANELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/thread_team.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/packed_memory.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// A run of panels of one type: output columns [first_column, first_column +
// out) of a product. Immutable once packed, then thread-safe.
struct PackedPanels {
  DType dtype = DType::kF32;
  int64_t in = 0;
  int64_t out = 0;
  int64_t first_column = 0;
  std::shared_ptr<const std::byte> data;  // shares its piece of PackedMemory

  int64_t num_panels() const {
    return (out + kernels::kPanelColumns - 1) / kernels::kPanelColumns;
  }
  int64_t bytes() const {
    return num_panels() * kernels::PanelBytes(dtype, in);
  }
  kernels::Panel panel(int64_t index) const {
    return {.dtype = dtype,
            .in = in,
            .data = data.get() + index * kernels::PanelBytes(dtype, in)};
  }
};

// Packs matrices [out_i, in], stacked along their outputs; neighbours of one
// type share panels. Errors: INVALID_ARGUMENT if there is no part, one is not a
// matrix with elements, their `in` differ, or the `in` of a quantised one is
// not a multiple of 32.
absl::StatusOr<std::vector<PackedPanels>> PackPanels(
    ThreadTeam& team, PackedMemory& memory, std::span<const TensorView> parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_PANELS_H_
