// Opens model files that a test counts on.
#ifndef HEADRACE_TESTS_TESTING_OPEN_SOURCE_H_
#define HEADRACE_TESTS_TESTING_OPEN_SOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/weights/weight_source.h"
#include "gtest/gtest.h"

namespace headrace {

// The source at `path`; if there is none, a failure of the test and null.
inline std::unique_ptr<WeightSource> OpenSource(const std::string& path) {
  auto source = OpenWeightSource(path);
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? *std::move(source) : nullptr;
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_OPEN_SOURCE_H_
