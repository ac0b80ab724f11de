#include "engine/ops/linear.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/status_macros.h"
#include "engine/ops/int8_linear.h"
#include "engine/ops/kernels/linear_exact.h"
#include "engine/ops/kernels/linear_fast.h"
#include "engine/ops/onednn_gemm.h"
#include "engine/ops/onednn_int8_gemm.h"
#include "engine/ops/panel_output.h"
#include "engine/ops/panel_tasks.h"

namespace headrace {
namespace {

using kernels::kBlockSize;
using kernels::kPanelColumns;
using kernels::Panel;

// Exact mode: up to here weights are decoded in registers, for a few rows at a
// time; beyond, a block of them is expanded once for all rows.
constexpr int64_t kMaxDirectRows = 12;

// Rows that the fast mode has memory for at once; it grows for more.
constexpr int64_t kReservedRows = 512;

// Where a task keeps what it needs, within its thread's scratch.
struct Scratch {
  explicit Scratch(std::span<std::byte> memory)
      : tile(reinterpret_cast<float*>(memory.data())),
        block(tile + kTaskRows * kPanelColumns),
        unpacked(reinterpret_cast<std::byte*>(block)) {}
  static constexpr size_t kBytes =
      sizeof(float) * (kTaskRows + kBlockSize) * kPanelColumns;
  static_assert(kBytes <= OpsContext::kScratchBytes);
  static_assert(kernels::kFastScratchBytes <=
                sizeof(float) * kBlockSize * kPanelColumns);

  float* tile;          // [kTaskRows, 64], sums
  float* block;         // [512, 64], expanded weights (exact)
  std::byte* unpacked;  // a chunk of weights (fast), in the same place
};

// The products of one run of panels with rows of floats or groups.
class RunOfPanels {
 public:
  // `quantized` is null where the rows are floats. dst as in Linear().
  RunOfPanels(OpsContext& context, const PackedPanels& panels,
              const QuantizedRows* quantized, const float* src,
              int64_t num_rows)
      : context_(context),
        panels_(panels),
        quantized_(quantized),
        src_(src),
        num_rows_(num_rows) {}

  void Multiply(LinearOutput dst) const {
    ForEachPanel(context_, panels_.num_panels(), num_rows_, kTaskRows / terms(),
                 [&](const PanelTask& task) {
                   const Scratch scratch(context_.scratch(task.thread_index));
                   const PanelOutput output(panels_, task, dst);
                   if (quantized_ != nullptr) {
                     MultiplyQuantized(task, scratch, output);
                   } else {
                     MultiplyFloats(task, scratch);
                     output.Put(scratch.tile);
                   }
                 });
  }

 private:
  int64_t terms() const {
    return quantized_ == nullptr ? 1 : quantized_->terms();
  }

  // The tile = the task's rows times its panel.
  void MultiplyFloats(const PanelTask& task, const Scratch& scratch) const {
    const Panel panel = panels_.panel(task.panel);
    const float* src = src_ + task.first_row * panel.in;
    if (task.num_rows <= kMaxDirectRows) {
      kernels::MultiplyPanel(panel, src, task.num_rows, scratch.tile,
                             kPanelColumns);
    } else {
      MultiplyExpanded(panel, src, task.num_rows, scratch);
    }
  }

  void MultiplyQuantized(const PanelTask& task, const Scratch& scratch,
                         const PanelOutput& output) const {
    // Terms to be added and a last panel with padded columns go through the
    // scratch.
    const bool direct = terms() == 1 && output.whole();
    kernels::MultiplyPanelFast(
        {.panel = panels_.panel(task.panel),
         .src = quantized_->row(task.first_row),
         .num_rows = task.num_rows * terms(),
         .sums = scratch.tile,
         .dst = direct ? output.rows() : scratch.tile,
         .ld_dst = direct ? output.stride() : kPanelColumns,
         .add = direct && output.add(),
         .scratch = scratch.unpacked});
    if (!direct) output.PutSums(terms(), scratch.tile);
  }

  void MultiplyExpanded(const Panel& panel, const float* src, int64_t rows,
                        const Scratch& scratch) const {
    for (int64_t k = 0; k < panel.in; k += kBlockSize) {
      const float* weights = scratch.block;
      if (panel.dtype == DType::kF32) {
        weights =
            reinterpret_cast<const float*>(panel.data) + k * kPanelColumns;
      } else {
        kernels::DequantizeBlock(panel, k, std::min(kBlockSize, panel.in - k),
                                 scratch.block);
      }
      for (int64_t row = 0; row < rows; row += OneDnnGemm::kMaxRows) {
        context_.gemm().Multiply(
            {.src = src + row * panel.in,
             .num_rows = std::min(OneDnnGemm::kMaxRows, rows - row),
             .in = panel.in,
             .k_begin = k,
             .weights = weights,
             .dst = scratch.tile + row * kPanelColumns});
      }
    }
  }

  OpsContext& context_;
  const PackedPanels& panels_;
  const QuantizedRows* quantized_;
  const float* src_;
  int64_t num_rows_;
};

RowForm RowFormOf(Numerics numerics, DType dtype) {
  const QuantizedFormat format = FormatOf(dtype);
  if (numerics == Numerics::kExact || format.bits == 0) return RowForm::kFloat;
  return format.row_scale ? RowForm::kInt8Rows : RowForm::kQuantizedGroups;
}

// Rows in the order of the runs that they are multiplied by. Null: the forms
// that are not there.
struct SourceRows {
  const float* src = nullptr;
  int64_t num_rows = 0;
  const QuantizedRows* quantized = nullptr;
  const Int8Rows* int8 = nullptr;
};

// Makes the forms that the runs take.
SourceRows QuantizeIfTaken(OpsContext& context, const LinearWeights& weights,
                           std::span<const PackedPanels> runs,
                           SourceRows rows) {
  const auto taken = [&](RowForm form) {
    return std::ranges::any_of(runs, [&](const PackedPanels& panels) {
      return RowFormOf(weights.numerics(), panels.dtype) == form;
    });
  };
  if (taken(RowForm::kQuantizedGroups)) {
    context.quantized_rows().Quantize(context.team(), rows.src, rows.num_rows,
                                      weights.in_features(),
                                      weights.row_precision());
    rows.quantized = &context.quantized_rows();
  }
  if (taken(RowForm::kInt8Rows)) {
    context.int8_rows().Quantize(context.team(), rows.src, rows.num_rows,
                                 weights.in_features(),
                                 weights.row_precision());
    rows.int8 = &context.int8_rows();
  }
  return rows;
}

void MultiplyRuns(OpsContext& context, const LinearWeights& weights,
                  std::span<const PackedPanels> runs, const SourceRows& rows,
                  LinearOutput dst) {
  for (const PackedPanels& panels : runs) {
    const QuantizedRows* quantized = nullptr;
    switch (RowFormOf(weights.numerics(), panels.dtype)) {
      case RowForm::kInt8Rows:
        CHECK(rows.int8 != nullptr);
        MultiplyInt8Panels(context, panels, *rows.int8, dst);
        continue;
      case RowForm::kQuantizedGroups:
        CHECK(rows.quantized != nullptr);
        quantized = rows.quantized;
        break;
      case RowForm::kFloat:
        CHECK(rows.src != nullptr);
        break;
    }
    RunOfPanels(context, panels, quantized, rows.src, rows.num_rows)
        .Multiply(dst);
  }
}

void CheckTakes(const LinearWeights& weights, int64_t width) {
  CHECK_EQ(width, weights.in_features());
  for (const PackedPanels& panels : weights.panels()) {
    CHECK(panels.order.empty());
  }
}

}  // namespace

absl::StatusOr<LinearWeights> LinearWeights::Pack(
    OpsContext& context, std::span<const TensorView> parts, Numerics numerics,
    RowPrecision precision) {
  LinearWeights weights;
  weights.numerics_ = numerics;
  weights.row_precision_ = precision;
  ASSIGN_OR_RETURN(weights.panels_,
                   PackPanels(context.team(), context.packed_memory(), parts));
  for (const PackedPanels& panels : weights.panels_) {
    if (!panels.order.empty()) {
      context.ordered_rows().Reserve(kReservedRows, panels.in);
    }
    switch (RowFormOf(numerics, panels.dtype)) {
      case RowForm::kFloat:
        context.gemm().Prepare(panels.in);
        break;
      case RowForm::kQuantizedGroups:
        context.quantized_rows().Reserve(kReservedRows, panels.in);
        break;
      case RowForm::kInt8Rows:
        context.int8_rows().Reserve(kReservedRows, panels.in);
        context.int8_gemm().Prepare(panels.in);
        break;
    }
  }
  return weights;
}

RowForm LinearWeights::row_form() const {
  const RowForm form = RowFormOf(numerics_, panels_.front().dtype);
  const bool all = std::ranges::all_of(panels_, [&](const PackedPanels& p) {
    return RowFormOf(numerics_, p.dtype) == form && p.order.empty();
  });
  return all ? form : RowForm::kFloat;
}

kernels::Panel LinearWeights::panel_at(int64_t column) const {
  const auto run = std::prev(std::ranges::upper_bound(
      panels_, column, {}, &PackedPanels::first_column));
  return run->panel((column - run->first_column) / kPanelColumns);
}

int64_t LinearWeights::packed_bytes() const {
  int64_t bytes = 0;
  for (const PackedPanels& panels : panels_) bytes += panels.bytes();
  return bytes;
}

void Linear(OpsContext& context, const LinearWeights& weights, const float* src,
            int64_t num_rows, LinearOutput dst) {
  if (num_rows == 0) return;
  std::span<const PackedPanels> rest = weights.panels();
  while (!rest.empty()) {
    const std::vector<int32_t>& order = rest.front().order;
    const auto end = std::ranges::find_if(
        rest, [&](const PackedPanels& p) { return p.order != order; });
    const auto count = static_cast<size_t>(end - rest.begin());
    const float* rows = order.empty()
                            ? src
                            : context.ordered_rows().Order(context.team(), src,
                                                           num_rows, order);
    MultiplyRuns(context, weights, rest.first(count),
                 QuantizeIfTaken(context, weights, rest.first(count),
                                 {.src = rows, .num_rows = num_rows}),
                 dst);
    rest = rest.subspan(count);
  }
}

void Linear(OpsContext& context, const LinearWeights& weights,
            const QuantizedRows& src, LinearOutput dst) {
  CheckTakes(weights, src.width());
  MultiplyRuns(
      context, weights, weights.panels(),
      {.src = src.src(), .num_rows = src.num_rows(), .quantized = &src}, dst);
}

void Linear(OpsContext& context, const LinearWeights& weights,
            const Int8Rows& src, LinearOutput dst) {
  CheckTakes(weights, src.width());
  MultiplyRuns(context, weights, weights.panels(),
               {.src = src.src(), .num_rows = src.num_rows(), .int8 = &src},
               dst);
}

}  // namespace headrace
