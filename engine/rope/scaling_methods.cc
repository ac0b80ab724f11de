#include "engine/rope/scaling_methods.h"

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

}  // namespace headrace
