#include "server/batching/retry_after.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace {

namespace {

constexpr char kPayload[] = "headrace/retry_after_ms";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  status.SetPayload(kPayload,
                    absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(delay))));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int64_t milliseconds = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace headrace
