#include "engine/capture/capture_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace headrace {

bool RowCheck::Reads(HookPoint hook) {
  switch (hook) {
    case HookPoint::kEmbed:
    case HookPoint::kPositionWrite:
    case HookPoint::kResidPre:
    case HookPoint::kAttnOut:
    case HookPoint::kResidMid:
    case HookPoint::kMlpOut:
    case HookPoint::kResidPost:
      return true;
    default:
      return false;
  }
}

void RowCheck::OnRow(HookPoint hook, int32_t layer, std::span<const float> row,
                     int32_t last_layer, CaptureChecks& checks) {
  switch (hook) {
    case HookPoint::kEmbed:
      sum_.assign(row.begin(), row.end());
      ++checks.rows_checked;
      return;
    case HookPoint::kResidPre:
      bus_.assign(row.begin(), row.end());
      return;
    case HookPoint::kPositionWrite:
    case HookPoint::kAttnOut:
    case HookPoint::kMlpOut:
      write_.assign(row.begin(), row.end());
      for (size_t i = 0; i < row.size(); ++i) sum_[i] += row[i];
      return;
    case HookPoint::kResidMid:
      CheckSum(row, checks.resid_mid_checked, checks.resid_mid_failed);
      bus_.assign(row.begin(), row.end());
      return;
    case HookPoint::kResidPost:
      CheckSum(row, checks.resid_post_checked, checks.resid_post_failed);
      bus_.assign(row.begin(), row.end());
      if (layer == last_layer) FinishSum(row, checks);
      return;
    default:  // the other hooks are not on the bus
      return;
  }
}

void RowCheck::OnEdit(HookPoint hook, std::span<const float> row) {
  std::vector<float>* before = nullptr;
  switch (hook) {
    case HookPoint::kEmbed:
      sum_.assign(row.begin(), row.end());
      return;
    case HookPoint::kPositionWrite:
    case HookPoint::kAttnOut:
    case HookPoint::kMlpOut:
      before = &write_;
      break;
    case HookPoint::kResidPre:
    case HookPoint::kResidMid:
    case HookPoint::kResidPost:
      before = &bus_;
      break;
    default:  // the other hooks are not on the bus
      return;
  }
  for (size_t i = 0; i < row.size(); ++i) {
    sum_[i] += static_cast<double>(row[i]) - (*before)[i];
  }
  before->assign(row.begin(), row.end());
}

void RowCheck::CheckSum(std::span<const float> after, int64_t& checked,
                        int64_t& failed) {
  bool equal = true;
  for (size_t i = 0; i < after.size(); ++i) {
    const float sum = bus_[i] + write_[i];
    // The same bits, and numbers: NaN equals nothing, as for who checks again.
    equal &= sum == after[i] &&
             std::bit_cast<uint32_t>(sum) == std::bit_cast<uint32_t>(after[i]);
  }
  ++checked;
  failed += equal ? 0 : 1;
}

void RowCheck::FinishSum(std::span<const float> final_residual,
                         CaptureChecks& checks) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < final_residual.size(); ++i) {
    const double difference = sum_[i] - final_residual[i];
    error += difference * difference;
    norm += static_cast<double>(final_residual[i]) * final_residual[i];
  }
  if (norm == 0) return;
  const double relative = std::sqrt(error / norm);
  checks.max_sum_relative_error =
      std::max(checks.max_sum_relative_error,
               std::isnan(relative) ? std::numeric_limits<double>::infinity()
                                    : relative);
}

}  // namespace headrace
