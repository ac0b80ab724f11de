// YaRN: pairs that turn often over the trained length are kept, those that
// turn less than about once are interpolated, with a ramp between; and the
// logits are sharpened through cos and sin.
// Source: Peng et al. 2023, arXiv:2309.00071, section 3.2 and equation 22; the
// rounding of the ramp's ends and mscale as in transformers 5.24,
// modeling_rope_utils.py, _compute_yarn_parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kOptional = {
    RopeFieldId::kFactor,          RopeFieldId::kOriginalMaxPositionEmbeddings,
    RopeFieldId::kAttentionFactor, RopeFieldId::kBetaFast,
    RopeFieldId::kBetaSlow,        RopeFieldId::kMscale,
    RopeFieldId::kMscaleAllDim,    RopeFieldId::kTruncate};

void FillYarnDefaults(RopeParams& params) {
  FillOriginalLength(params);
  const int64_t original = *params.original_max_position_embeddings;
  if (!params.factor.has_value() && original > 0) {
    params.factor = static_cast<double>(params.max_position_embeddings) /
                    static_cast<double>(original);
  }
  params.beta_fast = params.beta_fast.value_or(32.0);
  params.beta_slow = params.beta_slow.value_or(1.0);
  params.truncate = params.truncate.value_or(true);
}

void CheckYarn(const RopeParams& params,
               std::vector<FieldViolation>& violations) {
  if (*params.beta_fast < *params.beta_slow) {
    violations.push_back(
        {"beta_fast",
         absl::StrCat("must be at least beta_slow (", *params.beta_slow,
                      "); is ", *params.beta_fast)});
  }
}

// The pair, as a fraction, that turns `rotations` times over the original
// length.
double PairOfRotations(const RopeParams& params, double rotations) {
  const auto length =
      static_cast<double>(*params.original_max_position_embeddings);
  return static_cast<double>(params.rotary_dim) *
         std::log(length / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(params.rope_theta));
}

// Where the ramp from kept to interpolated begins and ends.
struct Ramp {
  double low;
  double high;

  double At(size_t pair) const {
    return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0,
                      1.0);
  }
};

Ramp CorrectionRamp(const RopeParams& params) {
  double low = PairOfRotations(params, *params.beta_fast);
  double high = PairOfRotations(params, *params.beta_slow);
  if (*params.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  // Not rotary_dim / 2 - 1, though that is the last pair.
  high = std::min(high, static_cast<double>(params.rotary_dim - 1));
  // transformers mends only equal ends; where clamping leaves them crossed its
  // ramp would run backwards, so there ggml's floor on the width is used.
  high = std::max(high, low + 0.001);
  return {low, high};
}

std::vector<double> YarnFrequencies(const RopeParams& params,
                                    int64_t /*context_length*/) {
  const Ramp ramp = CorrectionRamp(params);
  std::vector<double> inv_freqs = FrequencyLadder(params, params.rope_theta);
  for (size_t i = 0; i < inv_freqs.size(); ++i) {
    const double interpolated = ramp.At(i);
    inv_freqs[i] = inv_freqs[i] * (1 - interpolated) +
                   inv_freqs[i] / *params.factor * interpolated;
  }
  return inv_freqs;
}

double MagnitudeScale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnAttentionFactor(const RopeParams& params) {
  if (params.attention_factor.has_value()) return *params.attention_factor;
  const double mscale = params.mscale.value_or(0);
  const double mscale_all_dim = params.mscale_all_dim.value_or(0);
  if (mscale != 0 && mscale_all_dim != 0) {
    return MagnitudeScale(*params.factor, mscale) /
           MagnitudeScale(*params.factor, mscale_all_dim);
  }
  return MagnitudeScale(*params.factor, 1.0);
}

}  // namespace

constinit const ScalingMethod kYarnRope = {
    .type = RopeType::kYarn,
    .name = "yarn",
    .request_name = "yarn",
    .required_fields = {},
    .optional_fields = kOptional,
    .fill_defaults = FillYarnDefaults,
    .validate = CheckYarn,
    .inv_freqs = YarnFrequencies,
    .attention_factor = YarnAttentionFactor,
    .context_length = FactorTimesOriginalLength,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
