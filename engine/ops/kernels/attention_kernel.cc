// See attention_kernel.h.
#include "engine/ops/kernels/attention_kernel.h"

#include <algorithm>
#include <cfloat>
#include <cstdint>

// Comes before foreach_target.h.
#include "engine/ops/kernels/float_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/attention_kernel.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/attention_floats-inl.h"
#include "engine/ops/kernels/attention_part-inl.h"
#include "engine/ops/kernels/attention_softmax-inl.h"
#include "engine/ops/kernels/attention_tile-inl.h"
#include "engine/ops/kernels/sum_of_lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

void ScaleQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  const int64_t token_floats = rows.num_heads * rows.head_dim();
  for (int64_t token = 0; token < rows.num_tokens; ++token) {
    const float* src = rows.q + token * rows.q_token_stride;
    float* dst = workspace.q + token * token_floats;
    for (int64_t i = 0; i < token_floats; ++i) dst[i] = src[i] * rows.scale;
  }
}

void AttendFloatPart(const AttentionRows& rows, int64_t part,
                     AttentionWorkspace workspace, AttentionState part_state) {
  AttendPartAs<FloatKv<float>>(rows, part, workspace, part_state);
}
void AttendBFloat16Part(const AttentionRows& rows, int64_t part,
                        AttentionWorkspace workspace,
                        AttentionState part_state) {
  AttendPartAs<FloatKv<hwy::bfloat16_t>>(rows, part, workspace, part_state);
}

void ScoreFloatRow(const AttentionRows& row, AttentionWorkspace workspace,
                   float* dst) {
  ScoreRowAs<FloatKv<float>>(row, workspace, dst);
}
void ScoreBFloat16Row(const AttentionRows& row, AttentionWorkspace workspace,
                      float* dst) {
  ScoreRowAs<FloatKv<hwy::bfloat16_t>>(row, workspace, dst);
}

void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  const Floats d;
  const int64_t width = rows.width();
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    if (part_state.sum[row] == 0.0f) continue;
    const float* part = part_state.out + row * width;
    float* out = total.out + row * width;
    if (total.sum[row] == 0.0f) {
      total.max[row] = part_state.max[row];
      total.sum[row] = part_state.sum[row];
      std::copy_n(part, width, out);
      continue;
    }
    const float max = std::max(total.max[row], part_state.max[row]);
    const Vector old_factor = hn::Set(d, ExpOf(total.max[row] - max));
    const Vector part_factor = hn::Set(d, ExpOf(part_state.max[row] - max));
    total.max[row] = max;
    total.sum[row] = hn::GetLane(
        hn::MulAdd(hn::Set(d, part_state.sum[row]), part_factor,
                   hn::Mul(hn::Set(d, total.sum[row]), old_factor)));
    for (int64_t i = 0; i < width; i += kLanes) {
      const Vector old = hn::Mul(hn::Load(d, out + i), old_factor);
      hn::Store(hn::MulAdd(hn::Load(d, part + i), part_factor, old), d,
                out + i);
    }
  }
}

void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  for (int64_t row = 0; row < rows.num_rows(); ++row) {
    const float* out = total.out + row * rows.width();
    float* head = dst + row / rows.num_heads * dst_token_stride +
                  row % rows.num_heads * rows.head_dim();
    const float factor = 1.0f / total.sum[row];
    for (int64_t i = 0; i < rows.head_dim(); ++i) head[i] = out[i] * factor;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(ScaleQueries);
HWY_EXPORT(AttendFloatPart);
HWY_EXPORT(AttendBFloat16Part);
HWY_EXPORT(ScoreFloatRow);
HWY_EXPORT(ScoreBFloat16Row);
HWY_EXPORT(MergePart);
HWY_EXPORT(FinishRows);

void PrepareQueries(const AttentionRows& rows, AttentionWorkspace workspace) {
  if (IsInteger(rows.layout.dtype)) {
    QuantizeQueries(rows, workspace);
  } else {
    HWY_DYNAMIC_DISPATCH(ScaleQueries)(rows, workspace);
  }
}
void AttendPart(const AttentionRows& rows, int64_t part,
                AttentionWorkspace workspace, AttentionState part_state) {
  if (IsInteger(rows.layout.dtype)) {
    AttendIntegerPart(rows, part, workspace, part_state);
  } else if (rows.layout.dtype == KvCacheDtype::kBF16) {
    HWY_DYNAMIC_DISPATCH(AttendBFloat16Part)(rows, part, workspace, part_state);
  } else {
    HWY_DYNAMIC_DISPATCH(AttendFloatPart)(rows, part, workspace, part_state);
  }
}
void ScoreRow(const AttentionRows& row, AttentionWorkspace workspace,
              float* dst) {
  if (IsInteger(row.layout.dtype)) {
    ScoreIntegerRow(row, workspace, dst);
  } else if (row.layout.dtype == KvCacheDtype::kBF16) {
    HWY_DYNAMIC_DISPATCH(ScoreBFloat16Row)(row, workspace, dst);
  } else {
    HWY_DYNAMIC_DISPATCH(ScoreFloatRow)(row, workspace, dst);
  }
}
void MergePart(const AttentionRows& rows, AttentionState part_state,
               AttentionState total) {
  HWY_DYNAMIC_DISPATCH(MergePart)(rows, part_state, total);
}
void FinishRows(const AttentionRows& rows, AttentionState total, float* dst,
                int64_t dst_token_stride) {
  HWY_DYNAMIC_DISPATCH(FinishRows)(rows, total, dst, dst_token_stride);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
