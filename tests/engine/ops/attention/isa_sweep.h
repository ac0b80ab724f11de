// Runs a check on every instruction set that this machine has.
#ifndef HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ISA_SWEEP_H_
#define HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ISA_SWEEP_H_

#include <string>
#include <string_view>

#include "engine/ops/kernels/isa.h"
#include "gtest/gtest.h"

namespace headrace::testing {

// Calls check() with each instruction set chosen in turn, worst first, then
// lifts the cap. kWithFma leaves out those without fused multiply-add, whose
// last bits may differ.
enum class IsaSet { kAll, kWithFma };

template <typename Check>
void ForEachIsa(IsaSet set, const Check& check) {
  for (const std::string_view isa : kernels::SupportedIsas()) {
    if (set == IsaSet::kWithFma && isa.starts_with("SS")) continue;
    SCOPED_TRACE(std::string(isa));
    ASSERT_TRUE(kernels::CapIsa(isa).ok());
    check();
  }
  ASSERT_TRUE(kernels::CapIsa("").ok());
}

}  // namespace headrace::testing

#endif  // HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ISA_SWEEP_H_
