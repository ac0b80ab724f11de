// The calls that are under way: how many, and what their requests take.
#ifndef HEADRACE_SERVER_RPC_OPEN_CALLS_H_
#define HEADRACE_SERVER_RPC_OPEN_CALLS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

namespace headrace {

// Thread-safe.
class OpenCalls {
 public:
  // A message of 4 MiB may take a hundred once it is parsed, and is kept as
  // long as its call: those of all calls together take `max_bytes`. One call
  // is admitted whatever it takes.
  explicit OpenCalls(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // A server that stops waits for calls, and not for connections that are
  // idle. False after `timeout`.
  bool WaitUntilNone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  enum class Activity {
    kNone,   // no call since this was asked before
    kOpen,   // some are open
    kEnded,  // some were, and the last has ended
  };
  Activity TakeActivity() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class OpenCall;
  absl::Status Begin(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const int64_t max_bytes_;
  absl::Mutex mutex_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool was_used_ ABSL_GUARDED_BY(mutex_) = false;
};

// A call counts while one of these lives.
class OpenCall {
 public:
  OpenCall(OpenCalls& calls, const google::protobuf::Message& request)
      : calls_(calls),
        bytes_(static_cast<int64_t>(request.SpaceUsedLong())),
        status_(calls.Begin(bytes_)) {}
  ~OpenCall() { calls_.End(bytes_); }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  // RESOURCE_EXHAUSTED, with a retry delay: the call must end with this.
  const absl::Status& status() const { return status_; }

 private:
  OpenCalls& calls_;
  const int64_t bytes_;
  const absl::Status status_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_OPEN_CALLS_H_
