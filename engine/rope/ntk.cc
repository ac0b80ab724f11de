// NTK-aware scaling, static: a larger base. High frequencies stay as they are,
// the lowest is divided by the factor.
// Source: bloc97 2023, "NTK-Aware Scaled RoPE", as given by Peng et al. 2023,
// arXiv:2309.00071, equation 16.
#include <array>

#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

constexpr std::array kRequired = {RopeFieldId::kFactor};
constexpr std::array kOptional = {RopeFieldId::kOriginalMaxPositionEmbeddings};

std::vector<double> NtkFrequencies(const RopeParams& params,
                                   int64_t /*context_length*/) {
  return FrequencyLadder(params, NtkAwareTheta(params, *params.factor));
}

}  // namespace

constinit const ScalingMethod kNtkRope = {
    .type = RopeType::kNtk,
    .name = "ntk",
    .request_name = "ntk",
    .required_fields = kRequired,
    .optional_fields = kOptional,
    .fill_defaults = FillOriginalLength,
    .validate = CheckMoreThanOnePair,
    .inv_freqs = NtkFrequencies,
    .attention_factor = UnitAttentionFactor,
    .context_length = FactorTimesOriginalLength,
    .frozen_length = FreezeAtContextLength,
};

}  // namespace headrace
