// Which instruction set the kernels run on: the best one that this CPU has,
// or less when the user caps it. Kernels themselves are chosen by Highway's
// dynamic dispatch; this file only names and limits that choice.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_ISA_H_
#define HEADRACE_ENGINE_OPS_KERNELS_ISA_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace headrace::kernels {

// Highway's target names that this binary carries and this CPU supports, worst
// first, as in {"SSE4", "AVX2", "AVX3"}; unaffected by the cap. "AVX2_VNNI", of
// which Highway does not know, is AVX2 with AVX-VNNI.
std::vector<std::string_view> SupportedIsas();

// Kernels use `name` at the most from now on; a better one than the CPU has is
// no cap. An empty name lifts the cap. Not thread-safe: call while no kernel
// runs. Errors: INVALID_ARGUMENT naming the choices for an unknown name.
absl::Status CapIsa(std::string_view name);

// The one that kernels use now: what a dispatched kernel says of itself, as in
// "AVX3_ZEN4".
std::string_view ChosenIsa();

// Whether kernels that were compiled for AVX2 may use AVX-VNNI: the CPU has it,
// and no cap forbids it.
bool UsesAvxVnni();

}  // namespace headrace::kernels

#endif  // HEADRACE_ENGINE_OPS_KERNELS_ISA_H_
