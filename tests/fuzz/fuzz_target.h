// What one fuzzer is: an entry that must hold for any bytes, and seeds.
#ifndef HEADRACE_TESTS_FUZZ_FUZZ_TARGET_H_
#define HEADRACE_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Runs the code under test on `data`; dies when a promise is broken. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace headrace {

// Small valid inputs that reach every branch.
std::vector<std::string> FuzzSeeds();

}  // namespace headrace

#endif  // HEADRACE_TESTS_FUZZ_FUZZ_TARGET_H_
