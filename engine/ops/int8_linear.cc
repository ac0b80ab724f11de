#include "engine/ops/int8_linear.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/ops/kernels/linear_int8.h"
#include "engine/ops/onednn_int8_gemm.h"
#include "engine/ops/panel_output.h"
#include "engine/ops/panel_tasks.h"

namespace headrace {
namespace {

using kernels::Int8Product;
using kernels::kPanelColumns;

// Fewer rows read weights at the pace of memory, where our own loop is as fast.
constexpr int64_t kMinGemmRows = 4;

// Where a task keeps what it needs, within its thread's scratch.
struct Scratch {
  explicit Scratch(std::span<std::byte> memory)
      : tile(reinterpret_cast<float*>(memory.data())),
        sums(reinterpret_cast<int32_t*>(tile + kTaskRows * kPanelColumns)),
        gemm(reinterpret_cast<std::byte*>(sums + OneDnnInt8Gemm::kMaxRows *
                                                     kPanelColumns)) {}
  static_assert(sizeof(float) * kTaskRows * kPanelColumns +
                    sizeof(int32_t) * OneDnnInt8Gemm::kMaxRows * kPanelColumns +
                    OneDnnInt8Gemm::kScratchBytes <=
                OpsContext::kScratchBytes);

  float* tile;      // [kTaskRows, 64]
  int32_t* sums;    // [kMaxRows, 64]
  std::byte* gemm;  // what oneDNN wants
};

void MultiplyByGemm(const OneDnnInt8Gemm& gemm, const Int8Product& product,
                    const Scratch& scratch) {
  Int8Product part = product;
  for (int64_t row = 0; row < product.num_rows; row += part.num_rows) {
    part.num_rows = std::min(OneDnnInt8Gemm::kMaxRows, product.num_rows - row);
    part.src_scales = product.src_scales + row;
    part.dst = product.dst + row * product.ld_dst;
    gemm.Multiply(
        {.src = product.src + row * product.panel.in,
         .num_rows = part.num_rows,
         .in = product.panel.in,
         .weights = product.panel.data +
                    kernels::PanelHeaderBytes(FormatOf(product.panel.dtype)),
         .sums = scratch.sums,
         .scratch = scratch.gemm});
    kernels::FinishPanelInt8(part, scratch.sums);
  }
}

}  // namespace

void MultiplyInt8Panels(OpsContext& context, const PackedPanels& panels,
                        const Int8Rows& src, LinearOutput dst) {
  const OneDnnInt8Gemm& gemm = context.int8_gemm();
  const bool gemm_serves = gemm.Serves(panels.in);
  const int64_t terms = src.terms();
  ForEachPanel(context, panels.num_panels(), src.num_rows(), kTaskRows / terms,
               [&](const PanelTask& task) {
                 const Scratch scratch(context.scratch(task.thread_index));
                 const PanelOutput output(panels, task, dst);
                 const bool direct = terms == 1 && output.whole();
                 const Int8Product product = {
                     .panel = panels.panel(task.panel),
                     .src = src.values(task.first_row),
                     .src_scales = src.scales(task.first_row),
                     .num_rows = task.num_rows * terms,
                     .dst = direct ? output.rows() : scratch.tile,
                     .ld_dst = direct ? output.stride() : kPanelColumns,
                     .add = direct && output.add()};
                 if (gemm_serves && product.num_rows >= kMinGemmRows) {
                   MultiplyByGemm(gemm, product, scratch);
                 } else {
                   kernels::MultiplyPanelInt8(product);
                 }
                 if (!direct) output.PutSums(terms, scratch.tile);
               });
}

}  // namespace headrace
