// LongRoPE: a searched divisor per pair, one list for sequences within the
// original length and one for longer ones. The list is chosen once, when the
// sequence opens.
// Source: Ding et al. 2024, arXiv:2402.13753; the attention factor as in
// transformers 5.24, modeling_rope_utils.py, _compute_longrope_parameters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kShortFactor,
                                  RopeFieldId::kLongFactor};
constexpr std::array kOptional = {RopeFieldId::kFactor,
                                  RopeFieldId::kOriginalMaxPositionEmbeddings,
                                  RopeFieldId::kAttentionFactor};

void FillLongRopeDefaults(RopeParams& params) {
  FillOriginalLength(params);
  const int64_t original = *params.original_max_position_embeddings;
  if (!params.factor.has_value() && original > 0) {
    params.factor = static_cast<double>(params.max_position_embeddings) /
                    static_cast<double>(original);
  }
}

void CheckLongRope(const RopeParams& params,
                   std::vector<FieldViolation>& violations) {
  if (*params.original_max_position_embeddings == 1) {
    violations.push_back({"original_max_position_embeddings",
                          "must be above 1 for longrope; is 1"});
  }
}

std::vector<double> LongRopeFrequencies(const RopeParams& params,
                                        int64_t context_length) {
  const bool is_long =
      context_length > *params.original_max_position_embeddings;
  const std::vector<double>& divisors =
      is_long ? params.long_factor : params.short_factor;
  std::vector<double> inv_freqs = FrequencyLadder(params, params.rope_theta);
  for (size_t i = 0; i < inv_freqs.size(); ++i) inv_freqs[i] /= divisors[i];
  return inv_freqs;
}

// The same for short and long sequences.
double LongRopeAttentionFactor(const RopeParams& params) {
  if (params.attention_factor.has_value()) return *params.attention_factor;
  if (*params.factor <= 1) return 1.0;
  return std::sqrt(1 + std::log(*params.factor) /
                           std::log(static_cast<double>(
                               *params.original_max_position_embeddings)));
}

int64_t LongRopeFrozenLength(const RopeParams& params, int64_t needed) {
  const int64_t original = *params.original_max_position_embeddings;
  return needed <= original ? std::min(original, MaxPositionEmbeddings(params))
                            : MaxPositionEmbeddings(params);
}

}  // namespace

constinit const ScalingMethod kLongRope = {
    .type = RopeType::kLongRope,
    .name = "longrope",
    .request_name = "longrope",
    .required_fields = kRequired,
    .optional_fields = kOptional,
    .fill_defaults = FillLongRopeDefaults,
    .validate = CheckLongRope,
    .inv_freqs = LongRopeFrequencies,
    .attention_factor = LongRopeAttentionFactor,
    .context_length = MaxPositionEmbeddings,
    .frozen_length = LongRopeFrozenLength,
};

}  // namespace headrace
