// The special variable `loop` of a for block.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_LOOP_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_LOOP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

struct ForBlock;
struct JinjaFrame;

// Lives as long as its rendering, since a template may keep `loop` in a
// namespace.
class JinjaLoop {
 public:
  // Gives the next item, or nullopt after the last. The condition of
  // `for … if` is evaluated in here, no earlier than needed.
  using Pull = std::function<absl::StatusOr<std::optional<JinjaValue>>()>;
  // `length`: of the iterated value when it is known without pulling.
  JinjaLoop(Pull pull, std::optional<int64_t> length, int64_t depth0)
      : pull_(std::move(pull)), length_(length), depth0_(depth0) {}

  // Steps to the next item; false after the last.
  absl::StatusOr<bool> Advance();
  const JinjaValue& current() const { return current_; }
  int64_t depth0() const { return depth0_; }
  // After this the loop gives no more items.
  void Close() { pull_ = nullptr; }

  // loop.index, loop.last, …; nullopt for what a loop does not have.
  absl::StatusOr<std::optional<JinjaValue>> Attribute(std::string_view name);
  // loop.cycle(…): the argument whose turn it is.
  absl::StatusOr<JinjaValue> Cycle(const std::vector<JinjaValue>& values) const;
  // loop.changed(…): whether the arguments differ from the last call's.
  bool Changed(std::vector<JinjaValue> values);

  // The block this loop runs and the frame around it, when the block is
  // recursive: what loop(…) renders again.
  const ForBlock* recursive_block = nullptr;
  JinjaFrame* outer_frame = nullptr;

 private:
  absl::StatusOr<std::optional<JinjaValue>> PullOne();
  // Pulls one item ahead.
  absl::Status Peek();
  absl::StatusOr<int64_t> Length();

  Pull pull_;
  std::optional<int64_t> length_;
  int64_t depth0_;
  int64_t index0_ = -1;
  JinjaValue current_;
  std::optional<JinjaValue> previous_;
  bool has_ahead() const { return next_ahead_ < ahead_.size(); }

  // Items pulled but not reached yet: from next_ahead_ on.
  std::vector<JinjaValue> ahead_;
  size_t next_ahead_ = 0;
  std::optional<std::vector<JinjaValue>> last_changed_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_LOOP_H_
