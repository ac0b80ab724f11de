#include "engine/ops/kernels/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

constexpr std::string_view kAvx2 = "AVX2";
constexpr std::string_view kAvx2Vnni = "AVX2_VNNI";

std::vector<std::string_view> NamesOf(int64_t mask, bool with_avx_vnni) {
  std::vector<std::string_view> names;
  for (const int64_t bit : BitsOf(mask)) {
    names.push_back(hwy::TargetName(bit));
    if (names.back() == kAvx2 && with_avx_vnni) names.push_back(kAvx2Vnni);
  }
  return names;
}

// Intel SDM vol. 2A, CPUID leaf 7, sub-leaf 1: EAX bit 4.
bool CpuHasAvxVnni() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAvxVnniBit = 1U << 4;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && eax >= 1 &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & kAvxVnniBit) != 0;
#else
  return false;
#endif
}

// Written while no kernel runs.
bool g_cap_forbids_avx_vnni = false;

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
  return NamesOf(UncappedTargets(), CpuHasAvxVnni());
}

absl::Status CapIsa(std::string_view name) {
  if (name.empty()) {
    Cap(0);
    g_cap_forbids_avx_vnni = false;
    return absl::OkStatus();
  }
  const std::string_view target = name == kAvx2Vnni ? kAvx2 : name;
  for (const int64_t bit : BitsOf(HWY_TARGETS)) {
    if (target != hwy::TargetName(bit)) continue;
    Cap(bit - 1);
    g_cap_forbids_avx_vnni = name == kAvx2;
    return absl::OkStatus();
  }
  std::string choices;
  for (const std::string_view choice : NamesOf(HWY_TARGETS, true)) {
    choices += choices.empty() ? "" : ", ";
    choices += choice;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("instruction set \"", std::string(name),
                   "\" is unknown; choose one of ", choices));
}

std::string_view ChosenIsa() {
  const std::string_view name = HWY_DYNAMIC_DISPATCH(NameOfThis)();
  return name == kAvx2 && UsesAvxVnni() ? kAvx2Vnni : name;
}

bool UsesAvxVnni() {
  static const bool has = CpuHasAvxVnni();
  return has && !g_cap_forbids_avx_vnni;
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
