// Changing rows while they are computed: what is done to which rows of which
// hooks. A sequence's interventions touch its own rows alone.
#ifndef HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_
#define HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/capture/capture_plan.h"
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

struct Intervention {
  InterventionOp op = InterventionOp::kZero;
  HookSelection where;
  RowSelection rows;
  std::vector<float> vector;  // as wide as the hook, where the op takes one
  float value = 1;
};

// Changes one row. Dot products are summed in float64, in order, and every
// element is rounded to float32 once or as stated above: the bits depend on
// the row and the intervention alone.
void Apply(const Intervention& intervention, std::span<float> row);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_INTERVENTION_H_
