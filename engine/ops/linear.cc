#include "engine/ops/linear.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/status_macros.h"
#include "engine/ops/kernels/linear_exact.h"
#include "engine/ops/kernels/linear_fast.h"
#include "engine/ops/onednn_gemm.h"
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

// The products of one run of panels.
class RunOfPanels {
 public:
  // `quantized` is null in the exact mode. dst as in Linear().
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
                   MultiplyPanelRows(task, scratch, dst);
                 });
  }

 private:
  // dst = the task's rows times its panel, in the panel's columns.
  void MultiplyPanelRows(const PanelTask& task, const Scratch& scratch,
                         LinearOutput dst) const {
    if (quantized_ != nullptr) {
      MultiplyQuantized(task, scratch, dst);
      return;
    }
    const Panel panel = panels_.panel(task.panel);
    const float* src = src_ + task.first_row * panel.in;
    if (task.num_rows <= kMaxDirectRows) {
      kernels::MultiplyPanel(panel, src, task.num_rows, scratch.tile,
                             kPanelColumns);
    } else {
      MultiplyExpanded(panel, src, task.num_rows, scratch);
    }
    PutOut(task, scratch.tile, dst);
  }

  int64_t terms() const {
    return quantized_ == nullptr ? 1 : quantized_->terms();
  }

  void MultiplyQuantized(const PanelTask& task, const Scratch& scratch,
                         LinearOutput dst) const {
    const Panel panel = panels_.panel(task.panel);
    const int64_t column = task.panel * kPanelColumns;
    // Terms to be added and a last panel with padded columns go through the
    // scratch.
    const bool direct = terms() == 1 && column + kPanelColumns <= panels_.out;
    kernels::MultiplyPanelFast(
        {.panel = panel,
         .src = quantized_->row(task.first_row),
         .num_rows = task.num_rows * terms(),
         .sums = scratch.tile,
         .dst = direct ? OutputRow(task, 0, dst) : scratch.tile,
         .ld_dst = direct ? dst.stride : kPanelColumns,
         .add = direct && dst.add,
         .scratch = scratch.unpacked});
    if (terms() == 2) AddTerms(scratch.tile, task.num_rows);
    if (!direct) PutOut(task, scratch.tile, dst);
  }

  // Row i of the tile = row 2 i + row 2 i + 1.
  static void AddTerms(float* tile, int64_t num_rows) {
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* terms = tile + 2 * row * kPanelColumns;
      for (int64_t c = 0; c < kPanelColumns; ++c) {
        tile[row * kPanelColumns + c] = terms[c] + terms[kPanelColumns + c];
      }
    }
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

  // Row `row` of the task in the panel's columns.
  float* OutputRow(const PanelTask& task, int64_t row, LinearOutput dst) const {
    return dst.rows + (task.first_row + row) * dst.stride +
           panels_.first_column + task.panel * kPanelColumns;
  }

  void PutOut(const PanelTask& task, const float* tile,
              LinearOutput dst) const {
    const int64_t columns =
        std::min(kPanelColumns, panels_.out - task.panel * kPanelColumns);
    for (int64_t row = 0; row < task.num_rows; ++row) {
      const float* src = tile + row * kPanelColumns;
      float* to = OutputRow(task, row, dst);
      if (dst.add) {
        for (int64_t i = 0; i < columns; ++i) to[i] += src[i];
      } else {
        std::copy_n(src, columns, to);
      }
    }
  }

  OpsContext& context_;
  const PackedPanels& panels_;
  const QuantizedRows* quantized_;
  const float* src_;
  int64_t num_rows_;
};

bool TakesQuantizedRows(const LinearWeights& weights,
                        const PackedPanels& panels) {
  return weights.numerics() == Numerics::kFast && IsQuantized(panels.dtype);
}

// Rows in the order of the runs that they are multiplied by.
struct SourceRows {
  const float* src = nullptr;
  int64_t num_rows = 0;
  const QuantizedRows* quantized = nullptr;  // where a run takes them
};

SourceRows QuantizeIfTaken(OpsContext& context, const LinearWeights& weights,
                           std::span<const PackedPanels> runs,
                           SourceRows rows) {
  if (std::ranges::any_of(runs, [&](const PackedPanels& panels) {
        return TakesQuantizedRows(weights, panels);
      })) {
    context.quantized_rows().Quantize(context.team(), rows.src, rows.num_rows,
                                      weights.in_features(),
                                      weights.row_precision());
    rows.quantized = &context.quantized_rows();
  }
  return rows;
}

void MultiplyRuns(OpsContext& context, const LinearWeights& weights,
                  std::span<const PackedPanels> runs, const SourceRows& rows,
                  LinearOutput dst) {
  for (const PackedPanels& panels : runs) {
    const QuantizedRows* quantized =
        TakesQuantizedRows(weights, panels) ? rows.quantized : nullptr;
    RunOfPanels(context, panels, quantized, rows.src, rows.num_rows)
        .Multiply(dst);
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
    if (TakesQuantizedRows(weights, panels)) {
      context.quantized_rows().Reserve(kReservedRows, panels.in);
    } else {
      context.gemm().Prepare(panels.in);
    }
  }
  return weights;
}

bool LinearWeights::takes_quantized_rows() const {
  return std::ranges::all_of(panels_, [&](const PackedPanels& panels) {
    return TakesQuantizedRows(*this, panels) && panels.order.empty();
  });
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
  CHECK_EQ(src.width(), weights.in_features());
  for (const PackedPanels& panels : weights.panels()) {
    CHECK(panels.order.empty());
  }
  MultiplyRuns(
      context, weights, weights.panels(),
      {.src = src.src(), .num_rows = src.num_rows(), .quantized = &src}, dst);
}

}  // namespace headrace
