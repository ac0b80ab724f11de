// NTK-aware scaling by length. Keys are cached rotated, so the length is the
// one that a sequence is frozen at when it opens, never the current one.
// Source: transformers 5.24, modeling_rope_utils.py,
// _compute_dynamic_ntk_parameters; it reads max_position_embeddings as the
// trained length.
#include <algorithm>
#include <array>

#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kFactor};

std::vector<double> DynamicNtkFrequencies(const RopeParams& params,
                                          int64_t context_length) {
  const auto trained = static_cast<double>(params.max_position_embeddings);
  const double length = std::max(static_cast<double>(context_length), trained);
  // factor * length / trained - (factor - 1), without the difference of two
  // large numbers.
  const double scale = *params.factor * (length - trained) / trained + 1;
  return FrequencyLadder(params, NtkAwareTheta(params, scale));
}

int64_t DynamicNtkContextLength(const RopeParams& params) {
  return ScaledLength(*params.factor, params.max_position_embeddings);
}

// What fits the trained length stays unscaled.
int64_t DynamicNtkFrozenLength(const RopeParams& params, int64_t needed) {
  return std::clamp(needed, params.max_position_embeddings,
                    DynamicNtkContextLength(params));
}

}  // namespace

constinit const ScalingMethod kDynamicNtkRope = {
    .type = RopeType::kDynamicNtk,
    .name = "dynamic",
    .request_name = "dynamic_ntk",
    .required_fields = kRequired,
    .optional_fields = {},
    .fill_defaults = FillNothing,
    .validate = CheckMoreThanOnePair,
    .inv_freqs = DynamicNtkFrequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = DynamicNtkContextLength,
    .frozen_length = DynamicNtkFrozenLength,
};

}  // namespace headrace
