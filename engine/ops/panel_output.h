// Where the products of a task's rows with its panel go: some columns of the
// rows of a product.
#ifndef HEADRACE_ENGINE_OPS_PANEL_OUTPUT_H_
#define HEADRACE_ENGINE_OPS_PANEL_OUTPUT_H_

#include <algorithm>
#include <cstdint>

#include "engine/ops/linear_output.h"
#include "engine/ops/packed_panels.h"
#include "engine/ops/panel_tasks.h"

namespace headrace {

class PanelOutput {
 public:
  PanelOutput(const PackedPanels& panels, const PanelTask& task,
              LinearOutput dst)
      : rows_(dst.rows + task.first_row * dst.stride + panels.first_column +
              task.panel * kernels::kPanelColumns),
        stride_(dst.stride),
        add_(dst.add),
        num_rows_(task.num_rows),
        columns_(std::min(kernels::kPanelColumns,
                          panels.out - task.panel * kernels::kPanelColumns)) {}

  // Whether all columns of the panel are there, so that kernels may write them.
  bool whole() const { return columns_ == kernels::kPanelColumns; }
  float* rows() const { return rows_; }
  int64_t stride() const { return stride_; }
  bool add() const { return add_; }

  // Puts the rows of a tile [num_rows, 64] where they belong.
  void Put(const float* tile) const {
    for (int64_t row = 0; row < num_rows_; ++row) {
      const float* src = tile + row * kernels::kPanelColumns;
      float* to = rows_ + row * stride_;
      if (add_) {
        for (int64_t i = 0; i < columns_; ++i) to[i] += src[i];
      } else {
        std::copy_n(src, columns_, to);
      }
    }
  }

  // The same of a tile [num_rows, terms, 64]: each row is the sum of its terms,
  // 1 or 2, and is left in the tile.
  void PutSums(int64_t terms, float* tile) const {
    if (terms == 2) AddTerms(tile);
    Put(tile);
  }

 private:
  void AddTerms(float* tile) const {
    for (int64_t row = 0; row < num_rows_; ++row) {
      const float* terms = tile + 2 * row * kernels::kPanelColumns;
      for (int64_t c = 0; c < kernels::kPanelColumns; ++c) {
        tile[row * kernels::kPanelColumns + c] =
            terms[c] + terms[kernels::kPanelColumns + c];
      }
    }
  }

  float* rows_;
  int64_t stride_;
  bool add_;
  int64_t num_rows_;
  int64_t columns_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PANEL_OUTPUT_H_
