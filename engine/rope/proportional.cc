// Gemma 4's proportional encoding: the ladder spans the full head and only its
// first part turns. Not the same as partial rotation, whose ladder spans the
// turning lanes: here pairs are (i, i + head_dim / 2).
// Source: transformers 5.24, modeling_rope_utils.py,
// _compute_proportional_rope_parameters.
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kPartialRotaryFactor};
constexpr std::array kOptional = {RopeFieldId::kFactor};

void FillProportionalDefaults(RopeParams& params) {
  params.factor = params.factor.value_or(1.0);
}

void CheckProportional(const RopeParams& params,
                       std::vector<FieldViolation>& violations) {
  if (params.rotary_dim == params.head_dim) return;
  violations.push_back(
      {"rotary_dim",
       absl::StrCat("must be head_dim (", params.head_dim,
                    ") for proportional scaling; is ", params.rotary_dim)});
}

std::vector<double> ProportionalFrequencies(const RopeParams& params,
                                            int64_t /*context_length*/) {
  const auto num_turning = static_cast<size_t>(
      *params.partial_rotary_factor * static_cast<double>(params.head_dim) / 2);
  std::vector<double> inv_freqs = FrequencyLadder(params, params.rope_theta);
  for (size_t i = 0; i < inv_freqs.size(); ++i) {
    inv_freqs[i] = i < num_turning ? inv_freqs[i] / *params.factor : 0.0;
  }
  return inv_freqs;
}

}  // namespace

constinit const ScalingMethod kProportionalRope = {
    .type = RopeType::kProportional,
    .name = "proportional",
    .request_name = "proportional",
    .required_fields = kRequired,
    .optional_fields = kOptional,
    .fill_defaults = FillProportionalDefaults,
    .validate = CheckProportional,
    .inv_freqs = ProportionalFrequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = MaxPositionEmbeddings,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
