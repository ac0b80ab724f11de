// What most files include, precompiled in builds with sanitizers, which takes
// half of their time away. Other builds show an include that is missing.
#ifndef HEADRACE_TESTS_TESTING_SANITIZERS_PRELUDE_H_
#define HEADRACE_TESTS_TESTING_SANITIZERS_PRELUDE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#endif  // HEADRACE_TESTS_TESTING_SANITIZERS_PRELUDE_H_
