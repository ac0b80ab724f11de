// Names of tests that run with each Numerics.
#ifndef HEADRACE_TESTS_TESTING_NUMERICS_PARAM_H_
#define HEADRACE_TESTS_TESTING_NUMERICS_PARAM_H_

#include <string>

#include "engine/tensor/numerics.h"
#include "gtest/gtest.h"

namespace headrace {

// For the last argument of INSTANTIATE_TEST_SUITE_P.
inline std::string NumericsName(
    const ::testing::TestParamInfo<Numerics>& info) {
  return info.param == Numerics::kExact ? "Exact" : "Fast";
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_NUMERICS_PARAM_H_
