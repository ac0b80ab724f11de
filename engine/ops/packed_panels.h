// The one packed layout of a weight, described in README.md: panels of 64
// output columns, in the order in which the kernels read them.
#ifndef HEADRACE_ENGINE_OPS_PACKED_PANELS_H_
#define HEADRACE_ENGINE_OPS_PACKED_PANELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/thread_team.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/packed_memory.h"
#include "engine/ops/packed_run.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// Output columns [first_column, first_column + out) of a product.
struct PackedPanels : PackedRun {
  int64_t first_column = 0;
  // Which input of a row each k is; empty: itself.
  std::vector<int32_t> order;

  kernels::Panel panel(int64_t index) const {
    return {.dtype = dtype,
            .in = in,
            .data = data.get() + index * kernels::PanelBytes(dtype, in)};
  }
};

// Packs matrices [out_i, in], stacked along their outputs; neighbours of one
// type and order of inputs share panels. Errors: INVALID_ARGUMENT if there is
// no part, one is not a matrix with elements, their `in` differ, or the `in` of
// a quantised one is not a multiple of 32 or too great for its sums.
absl::StatusOr<std::vector<PackedPanels>> PackPanels(
    ThreadTeam& team, PackedMemory& memory, std::span<const TensorView> parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_PANELS_H_
