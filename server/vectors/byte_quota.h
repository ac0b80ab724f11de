// A number of bytes that several owners share: each takes its part first, and
// gives it back when it is done.
#ifndef HEADRACE_SERVER_VECTORS_BYTE_QUOTA_H_
#define HEADRACE_SERVER_VECTORS_BYTE_QUOTA_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace headrace {

class Reservation;

// Thread-safe. Shared by its reservations: what is in use may outlive the store
// that handed it out.
class ByteQuota : public std::enable_shared_from_this<ByteQuota> {
 public:
  explicit ByteQuota(int64_t limit) : limit_(limit) {}

  // Errors: RESOURCE_EXHAUSTED with the numbers.
  absl::StatusOr<Reservation> Take(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t used() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t limit() const { return limit_; }

 private:
  friend class Reservation;
  void Give(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const int64_t limit_;
  mutable absl::Mutex mutex_;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Bytes that are taken while this lives. Thread-compatible.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : quota_(std::move(other.quota_)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { ShrinkTo(0); }

  // Gives back what is above `bytes`.
  void ShrinkTo(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  friend class ByteQuota;
  Reservation(std::shared_ptr<ByteQuota> quota, int64_t bytes)
      : quota_(std::move(quota)), bytes_(bytes) {}

  std::shared_ptr<ByteQuota> quota_;
  int64_t bytes_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_BYTE_QUOTA_H_
