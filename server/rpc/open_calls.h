// How many calls are under way: a server that stops waits for them, and not for
// connections that are idle.
#ifndef HEADRACE_SERVER_RPC_OPEN_CALLS_H_
#define HEADRACE_SERVER_RPC_OPEN_CALLS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace headrace {

// Thread-safe.
class OpenCalls {
 public:
  // False after `timeout`.
  bool WaitUntilNone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return count_ == 0;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
  }

 private:
  friend class OpenCall;
  void Add(int64_t change) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    count_ += change;
  }

  absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A call counts while one of these lives.
class OpenCall {
 public:
  explicit OpenCall(OpenCalls& calls) : calls_(calls) { calls_.Add(1); }
  ~OpenCall() { calls_.Add(-1); }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

 private:
  OpenCalls& calls_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_OPEN_CALLS_H_
