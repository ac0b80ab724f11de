// Changing rows while they are computed: what is done to which rows of which
// hooks. A sequence's interventions touch its own rows alone.
#ifndef HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_
#define HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/capture/capture_plan.h"
#include "engine/capture/row_source.h"
#include "engine/model/hook_point.h"

namespace headrace {

enum class InterventionOp : uint8_t {
  kAdd,         // row += fl(value * vector)
  kScale,       // row *= value
  kProjectOut,  // row -= value * (row . v / |v|^2) * v
  kCap,         // where row . v / |v| > value: the part beyond is taken away
  kReplace,     // row = vector
  kZero,        // row = 0
};

// What an op reads beside the row.
constexpr bool TakesVector(InterventionOp op) {
  return op != InterventionOp::kScale && op != InterventionOp::kZero;
}

// Where kReplace finds the row for a position: at `layer` of `hook`, `offset`
// positions on. Rows that `source` has not, as wide as they are, stay.
struct RowsFrom {
  std::shared_ptr<const RowSource> source;  // shared with other requests
  std::optional<HookPoint> hook;            // else the one that is changed
  std::optional<int32_t> layer;
  int64_t offset = 0;
};

struct Intervention {
  InterventionOp op = InterventionOp::kZero;
  HookSelection where;
  RowSelection rows;
  std::vector<float> vector;  // as wide as the hook, where the op takes one
  float value = 1;
  // kReplace: the rows of another pass, in place of `vector`.
  std::optional<RowsFrom> from;
};

// What Apply() reads beside the row at `position`: the intervention's vector,
// or its row for there, which is empty when there is none.
std::span<const float> RowFor(const Intervention& intervention, int32_t layer,
                              int64_t position);

// Changes one row. Dot products are summed in float64, in order, and every
// element is rounded to float32 once or as stated above: the bits depend on
// the row and the intervention alone. `vector` is the intervention's, or what
// RowFor() found.
void Apply(const Intervention& intervention, std::span<const float> vector,
           std::span<float> row);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_
