// How a derived quantity is computed while a pass shows its rows. One kind is
// one file and one line in derived_quantity.cc.
#ifndef HEADRACE_ENGINE_CAPTURE_DERIVED_QUANTITY_H_
#define HEADRACE_ENGINE_CAPTURE_DERIVED_QUANTITY_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "engine/capture/capture_plan.h"
#include "engine/capture/derived_spec.h"
#include "engine/model/hook_point.h"
#include "engine/model/unembedding.h"

namespace headrace {

// Some of a sequence's selected rows of one hook and layer.
struct SelectedRows {
  struct Row {
    size_t index;  // among the sequence's selected rows of the step
    Phase phase;
    int64_t position;
    int32_t token;
    std::span<const float> values;
  };
  HookPoint hook;
  int32_t layer;
  std::span<const Row> rows;
};

// One row of the quantity. Spans live until the call returns.
struct DerivedRow {
  size_t index;  // of the row it belongs to
  HookPoint hook;
  int32_t layer;
  std::span<const float> values;  // ShapeOf(spec).values
  std::span<const int32_t> ids;   // ShapeOf(spec).ids
};

// Belongs to one sequence; owned by the batch loop. Rows of a step come in the
// order of the pass, and what a step left unfinished is forgotten.
class DerivedQuantity {
 public:
  using Emit = absl::FunctionRef<void(const DerivedRow&)>;

  virtual ~DerivedQuantity() = default;
  virtual bool Reads(HookPoint hook, int32_t layer) const = 0;
  virtual void OnRows(const SelectedRows& rows, Emit emit) = 0;
  // What is to be said of all rows together, when no more come.
  using EmitTotal = absl::FunctionRef<void(const CapturedRow&)>;
  virtual void OnEnd(EmitTotal /*emit*/) const {}
};

// `unembedding` outlives the quantity, as does `spec`.
std::unique_ptr<DerivedQuantity> MakeDerivedQuantity(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_DERIVED_QUANTITY_H_
