// Position interpolation: every frequency divided by the factor.
// Source: Chen et al. 2023, arXiv:2306.15595, equation 4.
#include <array>

#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kFactor};
constexpr std::array kOptional = {RopeFieldId::kOriginalMaxPositionEmbeddings};

std::vector<double> LinearFrequencies(const RopeParams& params,
                                      int64_t /*context_length*/) {
  std::vector<double> inv_freqs = FrequencyLadder(params, params.rope_theta);
  for (double& inv_freq : inv_freqs) inv_freq /= *params.factor;
  return inv_freqs;
}

}  // namespace

constinit const ScalingMethod kLinearRope = {
    .type = RopeType::kLinear,
    .name = "linear",
    .request_name = "linear",
    .required_fields = kRequired,
    .optional_fields = kOptional,
    .fill_defaults = FillOriginalLength,
    .validate = CheckNothing,
    .inv_freqs = LinearFrequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = FactorTimesOriginalLength,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
