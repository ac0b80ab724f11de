// Llama 3.1's scaling: by wavelength against the trained length, kept,
// divided, or blended between the two.
// Source: transformers 5.24, modeling_rope_utils.py,
// _compute_llama3_parameters. GGUF files store the result as divisors
// (rope_freqs), which then stand in for the formula.
#include <algorithm>
#include <array>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kFactor};
constexpr std::array kOptional = {RopeFieldId::kOriginalMaxPositionEmbeddings,
                                  RopeFieldId::kLowFreqFactor,
                                  RopeFieldId::kHighFreqFactor};

void FillLlama3Defaults(RopeParams& params) {
  if (!params.stored_divisors.empty()) {
    params.factor = *std::max_element(params.stored_divisors.begin(),
                                      params.stored_divisors.end());
    return;
  }
  FillOriginalLength(params);
  params.low_freq_factor = params.low_freq_factor.value_or(1.0);
  params.high_freq_factor = params.high_freq_factor.value_or(4.0);
}

void CheckLlama3(const RopeParams& params,
                 std::vector<FieldViolation>& violations) {
  if (!params.stored_divisors.empty()) return;
  if (*params.high_freq_factor <= *params.low_freq_factor) {
    violations.push_back(
        {"high_freq_factor", absl::StrCat("must be above low_freq_factor (",
                                          *params.low_freq_factor, "); is ",
                                          *params.high_freq_factor)});
  }
  if (*params.original_max_position_embeddings >=
      params.max_position_embeddings) {
    violations.push_back(
        {"original_max_position_embeddings",
         absl::StrCat("must be below max_position_embeddings (",
                      params.max_position_embeddings, "); is ",
                      *params.original_max_position_embeddings)});
  }
}

std::vector<double> Llama3Frequencies(const RopeParams& params,
                                      int64_t /*context_length*/) {
  std::vector<double> inv_freqs = FrequencyLadder(params, params.rope_theta);
  if (!params.stored_divisors.empty()) return inv_freqs;
  const double low = *params.low_freq_factor;
  const double high = *params.high_freq_factor;
  const auto original =
      static_cast<double>(*params.original_max_position_embeddings);
  for (double& inv_freq : inv_freqs) {
    const double rotations = original * inv_freq / (2 * std::numbers::pi);
    // 0: divided by the factor; 1: kept.
    const double kept = std::clamp((rotations - low) / (high - low), 0.0, 1.0);
    inv_freq = (1 - kept) * inv_freq / *params.factor + kept * inv_freq;
  }
  return inv_freqs;
}

}  // namespace

constinit const ScalingMethod kLlama3Rope = {
    .type = RopeType::kLlama3,
    .name = "llama3",
    .request_name = "llama3",
    .required_fields = kRequired,
    .optional_fields = kOptional,
    .fill_defaults = FillLlama3Defaults,
    .validate = CheckLlama3,
    .inv_freqs = Llama3Frequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = MaxPositionEmbeddings,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
