// What an error about a file must be: its code, and the words it must say.
#ifndef HEADRACE_TESTS_ENGINE_WEIGHTS_STATUS_MATCHERS_H_
#define HEADRACE_TESTS_ENGINE_WEIGHTS_STATUS_MATCHERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"

namespace headrace {

// For absl::Status: has `code`, and its message contains every one of `words`.
MATCHER_P2(FailsWith, code, words, "") {
  *result_listener << arg;
  if (arg.code() != code) return false;
  for (const std::string& word : words) {
    if (arg.message().find(word.data(), 0, word.size()) == arg.message().npos) {
      *result_listener << " lacks \"" << word << "\"";
      return false;
    }
  }
  return true;
}

// DATA_LOSS whose message contains every one of the words.
template <typename... Words>
auto IsDataLoss(const Words&... words) {
  return FailsWith(absl::StatusCode::kDataLoss,
                   std::vector<std::string>{words...});
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_WEIGHTS_STATUS_MATCHERS_H_
