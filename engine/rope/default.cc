// Unscaled rotary encoding.
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

std::vector<double> DefaultFrequencies(const RopeParams& params,
                                       int64_t /*context_length*/) {
  return FrequencyLadder(params, params.rope_theta);
}

}  // namespace

constinit const ScalingMethod kDefaultRope = {
    .type = RopeType::kDefault,
    .name = "default",
    .request_name = "none",
    .required_fields = {},
    .optional_fields = {},
    .fill_defaults = FillNothing,
    .validate = CheckNothing,
    .inv_freqs = DefaultFrequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = MaxPositionEmbeddings,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
