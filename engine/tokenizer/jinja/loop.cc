#include "engine/tokenizer/jinja/loop.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"

namespace headrace {

absl::StatusOr<std::optional<JinjaValue>> JinjaLoop::PullOne() {
  if (pull_ == nullptr) return std::nullopt;
  return pull_();
}

absl::StatusOr<bool> JinjaLoop::Advance() {
  RETURN_IF_ERROR(Peek());
  if (!has_ahead()) return false;
  if (index0_ >= 0) previous_ = std::move(current_);
  current_ = std::move(ahead_[next_ahead_++]);
  if (!has_ahead()) {
    ahead_.clear();
    next_ahead_ = 0;
  }
  ++index0_;
  return true;
}

absl::Status JinjaLoop::Peek() {
  if (has_ahead()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::optional<JinjaValue> next, PullOne());
  if (next.has_value()) ahead_.push_back(*std::move(next));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> JinjaLoop::Length() {
  if (!length_.has_value()) {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<JinjaValue> next, PullOne());
      if (!next.has_value()) break;
      ahead_.push_back(*std::move(next));
    }
    length_ = index0_ + 1 + static_cast<int64_t>(ahead_.size() - next_ahead_);
  }
  return *length_;
}

absl::StatusOr<std::optional<JinjaValue>> JinjaLoop::Attribute(
    std::string_view name) {
  if (name == "index") return JinjaValue::Integer(index0_ + 1);
  if (name == "index0") return JinjaValue::Integer(index0_);
  if (name == "first") return JinjaValue::Bool(index0_ == 0);
  if (name == "depth") return JinjaValue::Integer(depth0_ + 1);
  if (name == "depth0") return JinjaValue::Integer(depth0_);
  if (name == "last") {
    RETURN_IF_ERROR(Peek());
    return JinjaValue::Bool(!has_ahead());
  }
  if (name == "previtem") {
    return previous_.has_value()
               ? *previous_
               : JinjaValue::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    RETURN_IF_ERROR(Peek());
    return !has_ahead() ? JinjaValue::Undefined("there is no next item")
                        : ahead_[next_ahead_];
  }
  const bool is_revindex = name == "revindex";
  if (is_revindex || name == "revindex0" || name == "length") {
    ASSIGN_OR_RETURN(const int64_t length, Length());
    if (name == "length") return JinjaValue::Integer(length);
    return JinjaValue::Integer(length - index0_ - (is_revindex ? 0 : 1));
  }
  return std::nullopt;
}

absl::StatusOr<JinjaValue> JinjaLoop::Cycle(
    const std::vector<JinjaValue>& values) const {
  if (values.empty()) {
    return absl::InvalidArgumentError("loop.cycle() needs an argument");
  }
  const auto index = static_cast<size_t>(std::max<int64_t>(index0_, 0));
  return values[index % values.size()];
}

bool JinjaLoop::Changed(std::vector<JinjaValue> values) {
  const bool changed =
      !last_changed_.has_value() ||
      !std::equal(values.begin(), values.end(), last_changed_->begin(),
                  last_changed_->end(), JinjaEquals);
  if (changed) last_changed_ = std::move(values);
  return changed;
}

}  // namespace headrace
