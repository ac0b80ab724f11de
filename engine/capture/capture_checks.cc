#include "engine/capture/capture_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace headrace {

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
      if (layer == last_layer) FinishSum(row, checks);
      return;
    default:  // the other hooks are not on the bus
      return;
  }
}

void RowCheck::CheckSum(std::span<const float> after, int64_t& checked,
                        int64_t& failed) {
  bool equal = true;
  for (size_t i = 0; i < after.size(); ++i) {
    const float sum = bus_[i] + write_[i];
    equal &= std::bit_cast<uint32_t>(sum) == std::bit_cast<uint32_t>(after[i]);
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
  if (norm > 0) {
    checks.max_sum_relative_error =
        std::max(checks.max_sum_relative_error, std::sqrt(error / norm));
  }
}

void MergeChecks(const CaptureChecks& from, CaptureChecks& to) {
  to.rows_checked += from.rows_checked;
  to.resid_mid_checked += from.resid_mid_checked;
  to.resid_mid_failed += from.resid_mid_failed;
  to.resid_post_checked += from.resid_post_checked;
  to.resid_post_failed += from.resid_post_failed;
  to.max_sum_relative_error =
      std::max(to.max_sum_relative_error, from.max_sum_relative_error);
}

}  // namespace headrace
