// What one rendering may use. A template is a program that came with a model
// or a request; these bounds keep it from using the machine up.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_BUDGET_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

struct JinjaLimits {
  // Evaluated nodes, and what the values they read and make cost: so this
  // bounds time and memory (to about 64 MiB).
  int64_t max_steps = 4'000'000;
  // The output, and any one string.
  size_t max_text_bytes = size_t{4} << 20;
  // As jinja2's sandbox.
  int64_t max_range = 100'000;
  // Expressions, blocks and macros inside each other.
  int max_depth = 400;
  // Lists and dicts inside each other.
  int max_nesting = 100;
};

// Owned by one rendering.
class JinjaBudget {
 public:
  explicit JinjaBudget(const JinjaLimits& limits) : limits_(limits) {}

  const JinjaLimits& limits() const { return limits_; }

  absl::Status Charge(int64_t steps) {
    steps_ += steps;
    if (steps_ <= limits_.max_steps) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Concat("needs more than ", limits_.max_steps, " steps"));
  }

  // Pays for a text that is looked through or made.
  absl::Status ChargeText(size_t bytes) {
    return Charge(1 + static_cast<int64_t>(bytes / 16));
  }
  // Pays for looking for one of this many names or keys.
  absl::Status ChargeSearch(size_t count) {
    return Charge(static_cast<int64_t>(count / 16));
  }
  // Pays for items of a new list.
  absl::Status ChargeItems(size_t count) {
    return Charge(4 * AtMostAll(count));
  }
  // Pays for items that are new strings.
  absl::Status ChargeParts(size_t count) {
    return Charge(16 * AtMostAll(count));
  }

  // Call before a string grows to `bytes`.
  absl::Status CheckTextSize(size_t bytes) const {
    if (bytes <= limits_.max_text_bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(Concat("makes a text of ", bytes,
                                             " bytes; the limit is ",
                                             limits_.max_text_bytes));
  }

  // Call for every value that is made.
  absl::Status CheckValue(const JinjaValue& value) const {
    if (value.is_string()) return CheckTextSize(value.text().size());
    if (value.depth() > limits_.max_nesting) {
      return absl::InvalidArgumentError(
          Concat("nests lists and dicts ", value.depth(),
                 " deep; the limit is ", limits_.max_nesting));
    }
    if (value.weight() > limits_.max_steps) {
      return absl::InvalidArgumentError(
          Concat("makes a value of more than ", limits_.max_steps, " parts"));
    }
    return absl::OkStatus();
  }

 private:
  // A count from the template, cut to what is too much anyway: its multiples
  // must not overflow.
  int64_t AtMostAll(size_t count) const {
    return static_cast<int64_t>(
        std::min(count, static_cast<size_t>(limits_.max_steps)));
  }

  JinjaLimits limits_;
  int64_t steps_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_BUDGET_H_
