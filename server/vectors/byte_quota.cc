#include "server/vectors/byte_quota.h"

#include "absl/strings/str_cat.h"

namespace headrace {

absl::StatusOr<Reservation> ByteQuota::Take(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  if (bytes > limit_ - used_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes do not fit beside the ", used_,
        " that vectors and kept rows take; the limit is ", limit_));
  }
  used_ += bytes;
  return Reservation(shared_from_this(), bytes);
}

int64_t ByteQuota::used() const {
  const absl::MutexLock lock(&mutex_);
  return used_;
}

void ByteQuota::Give(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  used_ -= bytes;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  ShrinkTo(0);
  quota_ = std::move(other.quota_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Reservation::ShrinkTo(int64_t bytes) {
  if (bytes >= bytes_) return;
  quota_->Give(bytes_ - bytes);
  bytes_ = bytes;
}

}  // namespace headrace
