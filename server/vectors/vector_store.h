// What clients left with the server: vectors and kept rows by the hash of their
// content, for a time, within a quota of bytes. Nothing is pushed out by what
// comes later: a full store refuses.
#ifndef HEADRACE_SERVER_VECTORS_VECTOR_STORE_H_
#define HEADRACE_SERVER_VECTORS_VECTOR_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/vectors/byte_quota.h"
#include "server/vectors/store_stats.h"
#include "server/vectors/stored_rows.h"

namespace headrace {

struct VectorStoreOptions {
  int64_t max_bytes = 0;
  absl::Duration max_time_to_live;
  std::function<absl::Time()> now = absl::Now;
};

// What an entry takes beside its values.
inline constexpr int64_t kEntryBytes = 512;

struct StoredEntry {
  std::shared_ptr<const StoredRows> rows;
  absl::Time expires;
};

// Thread-safe.
class VectorStore {
 public:
  explicit VectorStore(VectorStoreOptions options)
      : options_(std::move(options)),
        quota_(std::make_shared<ByteQuota>(options_.max_bytes)) {}

  // Room for what is to be stored, and kEntryBytes beside it. Errors:
  // RESOURCE_EXHAUSTED.
  absl::StatusOr<Reservation> Reserve(int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Stores `rows`, which hold a reservation, under their hash until
  // `time_to_live` has passed; when they are there already, until the later of
  // both times. Returns when that is.
  absl::Time Put(const std::string& sha256, StoredRows rows,
                 absl::Duration time_to_live) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same for what is there already; nullopt when there is nothing.
  std::optional<absl::Time> Extend(std::string_view sha256,
                                   absl::Duration time_to_live)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // `rows` is null when there is nothing, or its time has passed. What is found
  // stays whole, and its bytes taken, while the caller has it.
  StoredEntry Find(std::string_view sha256) ABSL_LOCKS_EXCLUDED(mutex_);
  // False when there is nothing.
  bool Delete(std::string_view sha256) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets what is past its time; everything else here does so too.
  void DropExpired() ABSL_LOCKS_EXCLUDED(mutex_);

  const VectorStoreOptions& options() const { return options_; }
  int64_t bytes_used() const { return quota_->used(); }
  StoreStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time now() const { return options_.now(); }

 private:
  void DropExpiredLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const VectorStoreOptions options_;
  const std::shared_ptr<ByteQuota> quota_;
  mutable absl::Mutex mutex_;
  int64_t refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, StoredEntry> entries_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_VECTOR_STORE_H_
