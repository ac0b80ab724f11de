// Linear products: packs a model's weights once, multiplies rows by them.
// Numerics, to the order of every sum, are specified in README.md.
#ifndef HEADRACE_ENGINE_OPS_LINEAR_H_
#define HEADRACE_ENGINE_OPS_LINEAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ops/int8_rows.h"
#include "engine/ops/linear_output.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/packed_panels.h"
#include "engine/ops/quantized_rows.h"
#include "engine/tensor/numerics.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// What a product takes its rows as: floats; in the fast mode int8, with a scale
// for each group of values or one for the row, as the weights have them.
enum class RowForm : uint8_t { kFloat, kQuantizedGroups, kInt8Rows };

// Packed weights of one product. Immutable; thread-safe.
class LinearWeights {
 public:
  // Packs matrices [out_i, in], stacked along their outputs (q, k and v as
  // one; gate and up as one). Each may have a type of its own; those of F32,
  // F16 and BF16 are computed as in the exact mode whatever `numerics`. The
  // parts' memory is not needed afterwards. Of a part that has an order of
  // inputs, products take that order too. Compiles what products of `in`
  // inputs need, so that Linear() compiles and packs nothing.
  // In the fast mode, rows are quantised as `precision` says.
  // Errors: INVALID_ARGUMENT if there is no part, one is not a matrix, their
  // `in` differ, or that of a quantised one is not a multiple of 32 or, of a
  // type with a scale for each output, greater than 131072.
  static absl::StatusOr<LinearWeights> Pack(
      OpsContext& context, std::span<const TensorView> parts, Numerics numerics,
      RowPrecision precision = RowPrecision::kInt8);

  int64_t in_features() const { return panels_.front().in; }
  int64_t out_features() const {
    return panels_.back().first_column + panels_.back().out;
  }
  Numerics numerics() const { return numerics_; }
  RowPrecision row_precision() const { return row_precision_; }
  // What all of it takes, in the order in which rows are; kFloat for weights
  // with an order of their own or of several kinds, which Linear() serves.
  RowForm row_form() const;
  // The panel that holds output `column`.
  kernels::Panel panel_at(int64_t column) const;
  // Memory that the packed weights take.
  int64_t packed_bytes() const;

  // One per run of parts that share a type.
  std::span<const PackedPanels> panels() const { return panels_; }

 private:
  LinearWeights() = default;

  Numerics numerics_ = Numerics::kExact;
  RowPrecision row_precision_ = RowPrecision::kInt8;
  std::vector<PackedPanels> panels_;
};

// dst = src · Wᵀ, on the context's team.
//
//   src: [num_rows, in_features]   f32
//
// A row's bits do not depend on num_rows, on the rows beside it or on threads.
// In the fast mode, the rows are quantised first.
void Linear(OpsContext& context, const LinearWeights& weights, const float* src,
            int64_t num_rows, LinearOutput dst);

// The same with rows that are quantised already, for several products of the
// same rows. `src.width()` is in_features. The weights' row_form() is that of
// `src`, or the rows have their source and no part an order of its own.
void Linear(OpsContext& context, const LinearWeights& weights,
            const QuantizedRows& src, LinearOutput dst);
void Linear(OpsContext& context, const LinearWeights& weights,
            const Int8Rows& src, LinearOutput dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_LINEAR_H_
