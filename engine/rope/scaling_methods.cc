#include "engine/rope/scaling_methods.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace headrace {
namespace {

constexpr std::array<const ScalingMethod*, 8> kMethods = {
    &kDefaultRope,       // default.cc
    &kLinearRope,        // linear.cc
    &kNtkRope,           // ntk.cc
    &kDynamicNtkRope,    // dynamic_ntk.cc
    &kYarnRope,          // yarn.cc
    &kLongRope,          // longrope.cc
    &kLlama3Rope,        // llama3.cc
    &kProportionalRope,  // proportional.cc
};

}  // namespace

std::span<const ScalingMethod* const> ScalingMethods() { return kMethods; }

const ScalingMethod& FindScalingMethod(RopeType type) {
  return *kMethods[static_cast<size_t>(type)];
}

bool UsesField(const ScalingMethod& method, RopeFieldId id) {
  const auto has = [id](std::span<const RopeFieldId> ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return has(method.required_fields) || has(method.optional_fields);
}

}  // namespace headrace
