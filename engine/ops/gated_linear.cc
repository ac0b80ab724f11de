#include "engine/ops/gated_linear.h"

#include <cstddef>
#include <span>

#include "engine/ops/kernels/linear_fast.h"
#include "engine/ops/kernels/quantize_rows.h"
#include "engine/ops/panel_tasks.h"

namespace headrace {
namespace {

using kernels::kPanelColumns;

constexpr int64_t kPanelGroups = kPanelColumns / kGroupSize;

// Within a thread's scratch.
struct Scratch {
  explicit Scratch(std::span<std::byte> memory)
      : gate(reinterpret_cast<float*>(memory.data())),
        up(gate + kTaskRows * kPanelColumns),
        unpacked(reinterpret_cast<std::byte*>(up + kTaskRows * kPanelColumns)) {
  }
  static_assert(2 * sizeof(float) * kTaskRows * kPanelColumns +
                    kernels::kFastScratchBytes <=
                OpsContext::kScratchBytes);

  float* gate;  // [kTaskRows, 64]
  float* up;    // [kTaskRows, 64]
  std::byte* unpacked;
};

}  // namespace

bool TakesGatedLinear(const LinearWeights& gate_up) {
  return gate_up.row_form() == RowForm::kQuantizedGroups &&
         gate_up.out_features() % (2 * kPanelColumns) == 0;
}

void GatedLinear(OpsContext& context, const LinearWeights& gate_up,
                 Activation activation, const QuantizedRows& src,
                 QuantizedRows& dst) {
  const int64_t num_rows = src.num_rows();
  const int64_t width = gate_up.out_features() / 2;
  kernels::QuantizedGroup* groups = dst.Begin(num_rows, width);
  const ActivateRow activate = ActivateRowOf(activation);
  const auto multiply = [&](const PanelTask& task, int64_t column, float* tile,
                            std::byte* unpacked) {
    kernels::MultiplyPanelFast({.panel = gate_up.panel_at(column),
                                .src = src.row(task.first_row),
                                .num_rows = task.num_rows,
                                .sums = tile,
                                .dst = tile,
                                .ld_dst = kPanelColumns,
                                .scratch = unpacked});
  };
  ForEachPanel(context, width / kPanelColumns, num_rows, kTaskRows,
               [&](const PanelTask& task) {
                 const Scratch scratch(context.scratch(task.thread_index));
                 const int64_t column = task.panel * kPanelColumns;
                 multiply(task, column, scratch.gate, scratch.unpacked);
                 multiply(task, width + column, scratch.up, scratch.unpacked);
                 activate(scratch.gate, scratch.up,
                          task.num_rows * kPanelColumns, scratch.gate);
                 const int64_t row_groups = width / kGroupSize;
                 kernels::QuantizeRows(scratch.gate, task.num_rows,
                                       kPanelGroups,
                                       groups + task.first_row * row_groups +
                                           task.panel * kPanelGroups,
                                       row_groups);
               });
}

}  // namespace headrace
