#include "server/vectors/vector_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"

namespace headrace {

absl::StatusOr<Reservation> VectorStore::Reserve(int64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
  absl::StatusOr<Reservation> taken = quota_->Take(bytes + kEntryBytes);
  if (!taken.ok()) ++refusals_;
  return taken;
}

absl::Time VectorStore::Put(const std::string& sha256, StoredRows rows,
                            absl::Duration time_to_live) {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
  const absl::Time expires = options_.now() + time_to_live;
  const auto [found, inserted] = entries_.try_emplace(sha256);
  StoredEntry& entry = found->second;
  if (inserted) {
    entry.rows = std::make_shared<const StoredRows>(std::move(rows));
  }
  entry.expires = inserted ? expires : std::max(entry.expires, expires);
  return entry.expires;
}

std::optional<absl::Time> VectorStore::Extend(std::string_view sha256,
                                              absl::Duration time_to_live) {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
  const auto found =
      entries_.find(absl::string_view(sha256.data(), sha256.size()));
  if (found == entries_.end()) return std::nullopt;
  absl::Time& expires = found->second.expires;
  expires = std::max(expires, options_.now() + time_to_live);
  return expires;
}

StoredEntry VectorStore::Find(std::string_view sha256) {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
  const auto found =
      entries_.find(absl::string_view(sha256.data(), sha256.size()));
  return found == entries_.end() ? StoredEntry{} : found->second;
}

bool VectorStore::Delete(std::string_view sha256) {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
  return entries_.erase(absl::string_view(sha256.data(), sha256.size())) > 0;
}

StoreStats VectorStore::stats() const {
  StoreStats stats{.bytes_used = quota_->used(),
                   .bytes_limit = quota_->limit()};
  const absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) {
    const bool rows = !entry.rows->blocks.empty();
    ++(rows ? stats.kept_rows : stats.vectors);
    (rows ? stats.kept_rows_bytes : stats.vector_bytes) +=
        entry.rows->bytes.bytes();
  }
  stats.refusals = refusals_;
  return stats;
}

void VectorStore::DropExpired() {
  const absl::MutexLock lock(&mutex_);
  DropExpiredLocked();
}

void VectorStore::DropExpiredLocked() {
  const absl::Time now = options_.now();
  absl::erase_if(entries_, [now](const auto& entry) {
    return entry.second.expires <= now;
  });
}

}  // namespace headrace
