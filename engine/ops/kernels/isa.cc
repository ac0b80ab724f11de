#include "engine/ops/kernels/isa.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/isa.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "hwy/highway.h"
#include "hwy/targets.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

const char* NameOfThis() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(NameOfThis);

namespace {

// Single bits of a mask of targets, worst first: in Highway a lower bit is a
// better target of the same architecture.
std::vector<int64_t> BitsOf(int64_t mask) {
  std::vector<int64_t> bits;
  for (; mask != 0; mask &= mask - 1) bits.push_back(mask & -mask);
  std::reverse(bits.begin(), bits.end());
  return bits;
}

std::vector<std::string_view> NamesOf(int64_t mask) {
  std::vector<std::string_view> names;
  for (const int64_t bit : BitsOf(mask)) names.push_back(hwy::TargetName(bit));
  return names;
}

// What the CPU supports whatever the cap.
int64_t UncappedTargets() {
  static const int64_t targets = [] {
    hwy::DisableTargets(0);
    const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
    return supported != 0 ? supported : HWY_STATIC_TARGET;
  }();
  return targets;
}

void Cap(int64_t disabled_targets) {
  UncappedTargets();  // before the cap hides some
  hwy::DisableTargets(disabled_targets);
  // To ask what is supported sets the dispatcher to all that the CPU has, cap
  // or not; so it is told here.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::string_view> SupportedIsas() {
  return NamesOf(UncappedTargets());
}

absl::Status CapIsa(std::string_view name) {
  if (name.empty()) {
    Cap(0);
    return absl::OkStatus();
  }
  for (const int64_t bit : BitsOf(HWY_TARGETS)) {
    if (name != hwy::TargetName(bit)) continue;
    Cap(bit - 1);
    return absl::OkStatus();
  }
  std::string choices;
  for (const std::string_view choice : NamesOf(HWY_TARGETS)) {
    choices += choices.empty() ? "" : ", ";
    choices += choice;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("instruction set \"", std::string(name),
                   "\" is unknown; choose one of ", choices));
}

std::string_view ChosenIsa() { return HWY_DYNAMIC_DISPATCH(NameOfThis)(); }

}  // namespace headrace::kernels
#endif  // HWY_ONCE
