#include "server/rpc/open_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/retry_after.h"

namespace headrace {

absl::Status OpenCalls::Begin(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  const int64_t others = bytes_;
  ++count_;
  bytes_ += bytes;
  was_used_ = true;
  if (others == 0 || bytes_ <= max_bytes_) return absl::OkStatus();
  return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                            "the server is busy: this request takes ", bytes,
                            " bytes beside the ", others,
                            " of others; the limit is ", max_bytes_)),
                        absl::Seconds(1));
}

void OpenCalls::End(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  --count_;
  bytes_ -= bytes;
}

bool OpenCalls::WaitUntilNone(absl::Duration timeout) {
  const absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return count_ == 0;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
}

OpenCalls::Activity OpenCalls::TakeActivity() {
  const absl::MutexLock lock(&mutex_);
  if (count_ > 0) return Activity::kOpen;
  return std::exchange(was_used_, false) ? Activity::kEnded : Activity::kNone;
}

}  // namespace headrace
