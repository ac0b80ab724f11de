#include "engine/rope/scaling_common.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {

std::vector<double> FrequencyLadder(const RopeParams& params, double theta) {
  std::vector<double> inv_freqs(static_cast<size_t>(params.rotary_dim / 2));
  for (size_t i = 0; i < inv_freqs.size(); ++i) {
    const double exponent =
        2.0 * static_cast<double>(i) / static_cast<double>(params.rotary_dim);
    inv_freqs[i] = 1.0 / std::pow(theta, exponent);
    if (!params.stored_divisors.empty()) {
      inv_freqs[i] /= params.stored_divisors[i];
    }
  }
  return inv_freqs;
}

double NtkAwareTheta(const RopeParams& params, double scale) {
  const auto d = static_cast<double>(params.rotary_dim);
  return params.rope_theta * std::pow(scale, d / (d - 2));
}

int64_t ScaledLength(double factor, int64_t length) {
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const double scaled = factor * static_cast<double>(length) * (1 + kRounding);
  if (scaled >= static_cast<double>(kMaxRopePositions))
    return kMaxRopePositions;
  return static_cast<int64_t>(std::floor(scaled));
}

int64_t OriginalLength(const RopeParams& params) {
  return params.original_max_position_embeddings.value_or(
      params.max_position_embeddings);
}

void FillNothing(RopeParams& /*params*/) {}

void FillOriginalLength(RopeParams& params) {
  params.original_max_position_embeddings = OriginalLength(params);
}

void CheckNothing(const RopeParams& /*params*/,
                  std::vector<FieldViolation>& /*violations*/) {}

void CheckMoreThanOnePair(const RopeParams& params,
                          std::vector<FieldViolation>& violations) {
  if (params.rotary_dim > 2) return;
  violations.push_back(
      {"rotary_dim", absl::StrCat("must be above 2 for NTK-aware scaling; is ",
                                  params.rotary_dim)});
}

double UnitAttentionFactor(const RopeParams& /*params*/) { return 1.0; }

int64_t FactorTimesOriginalLength(const RopeParams& params) {
  return ScaledLength(params.factor.value_or(1.0), OriginalLength(params));
}

int64_t MaxPositionEmbeddings(const RopeParams& params) {
  return params.max_position_embeddings;
}

int64_t FreezeAtContextLength(const RopeParams& params, int64_t /*needed*/) {
  return FindScalingMethod(params.type).context_length(params);
}

}  // namespace headrace
