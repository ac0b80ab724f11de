// Verifies, row by row, that the residual bus is a sum: each identity exactly
// in float32, and the sum of all writes against the final residual.
#ifndef HEADRACE_ENGINE_CAPTURE_CAPTURE_CHECKS_H_
#define HEADRACE_ENGINE_CAPTURE_CAPTURE_CHECKS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/capture/capture_plan.h"
#include "engine/model/hook_point.h"

namespace headrace {

// Follows one row through one step. Rows come in the order of a pass: embed,
// then per layer resid_pre, each writer's write, the bus after it.
class RowCheck {
 public:
  // The hooks on the bus, without which OnRow() cannot follow it.
  static bool Reads(HookPoint hook);

  void OnRow(HookPoint hook, int32_t layer, std::span<const float> row,
             int32_t last_layer, CaptureChecks& checks);
  // The row that OnRow saw last was changed into this: one more write.
  void OnEdit(HookPoint hook, std::span<const float> row);

 private:
  void CheckSum(std::span<const float> after, int64_t& checked,
                int64_t& failed);
  void FinishSum(std::span<const float> final_residual, CaptureChecks& checks);

  std::vector<float> bus_;  // before the write
  std::vector<float> write_;
  std::vector<double> sum_;  // embed + writes so far
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_CAPTURE_CHECKS_H_
