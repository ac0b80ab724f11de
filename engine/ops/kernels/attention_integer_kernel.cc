// See attention_kernel.h: attention to keys and values that are integers.
#include "engine/ops/kernels/attention_kernel.h"

#include <algorithm>
#include <cstdint>

// Comes before foreach_target.h.
#include "engine/ops/kernels/dot_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/attention_integer_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/attention_integers-inl.h"
#include "engine/ops/kernels/attention_part-inl.h"
#include "engine/ops/kernels/kv_integers-inl.h"
#include "engine/ops/kernels/kv_integers.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

void QuantizeQueriesOf(const AttentionRows& rows,
                       AttentionWorkspace workspace) {
  const int64_t head_dim = rows.head_dim();
  const int64_t width = rows.width();
  const int64_t num_rows = rows.num_rows();
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* src = rows.q + row / rows.num_heads * rows.q_token_stride +
                       row % rows.num_heads * head_dim;
    float* dst = workspace.q + row * width;
    for (int64_t i = 0; i < head_dim; ++i) dst[i] = src[i] * rows.scale;
    std::fill(dst + head_dim, dst + width, 0.0f);
  }
  RoundRowsToInt16(workspace.q, width, num_rows,
                   static_cast<float>(kInt16Limit), workspace.integer_q,
                   workspace.q_scales);
}

void AttendPartInt16(const AttentionRows& rows, int64_t part,
                     AttentionWorkspace workspace, AttentionState part_state) {
  AttendPartAs<IntegerKv<int16_t>>(rows, part, workspace, part_state);
}

void AttendPartInt8(const AttentionRows& rows, int64_t part,
                    AttentionWorkspace workspace, AttentionState part_state) {
  AttendPartAs<IntegerKv<int8_t>>(rows, part, workspace, part_state);
}

void ScoreRowInt16(const AttentionRows& row, AttentionWorkspace workspace,
                   float* dst) {
  ScoreRowAs<IntegerKv<int16_t>>(row, workspace, dst);
}

void ScoreRowInt8(const AttentionRows& row, AttentionWorkspace workspace,
                  float* dst) {
  ScoreRowAs<IntegerKv<int8_t>>(row, workspace, dst);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeQueriesOf);
HWY_EXPORT(AttendPartInt16);
HWY_EXPORT(AttendPartInt8);
HWY_EXPORT(ScoreRowInt16);
HWY_EXPORT(ScoreRowInt8);

void QuantizeQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  HWY_DYNAMIC_DISPATCH(QuantizeQueriesOf)(rows, workspace);
}

void AttendIntegerPart(const AttentionRows& rows, int64_t part,
                       AttentionWorkspace workspace,
                       AttentionState part_state) {
  if (rows.layout.dtype == KvCacheDtype::kInt16) {
    HWY_DYNAMIC_DISPATCH(AttendPartInt16)(rows, part, workspace, part_state);
  } else {
    HWY_DYNAMIC_DISPATCH(AttendPartInt8)(rows, part, workspace, part_state);
  }
}

void ScoreIntegerRow(const AttentionRows& row, AttentionWorkspace workspace,
                     float* dst) {
  if (row.layout.dtype == KvCacheDtype::kInt16) {
    HWY_DYNAMIC_DISPATCH(ScoreRowInt16)(row, workspace, dst);
  } else {
    HWY_DYNAMIC_DISPATCH(ScoreRowInt8)(row, workspace, dst);
  }
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
