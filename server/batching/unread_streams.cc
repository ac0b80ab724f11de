#include "server/batching/unread_streams.h"

#include <algorithm>
#include <utility>

namespace headrace {

void UnreadStreams::Add(std::shared_ptr<EventStream> stream, absl::Time now) {
  entries_.push_back({.stream = std::move(stream), .last_read = now});
  Update(now);
}

void UnreadStreams::Update(absl::Time now) {
  for (Entry& entry : entries_) {
    // Watched before it is looked at: what is read in between calls.
    entry.stream->WatchRoom(on_read_);
    const int64_t taken = entry.stream->events_taken();
    if (taken != entry.events_taken) entry.last_read = now;
    entry.events_taken = taken;
    entry.held_bytes = entry.stream->held_bytes();
  }
  std::erase_if(entries_,
                [](const Entry& entry) { return entry.stream->AllRead(); });
}

bool UnreadStreams::FailIdle(absl::Time since, const absl::Status& status) {
  const size_t failed = std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.last_read > since) return false;
    entry.stream->Fail(status);
    return true;
  });
  return failed > 0;
}

int64_t UnreadStreams::held_bytes() const {
  int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.held_bytes;
  return bytes;
}

absl::Time UnreadStreams::OldestRead() const {
  absl::Time oldest = absl::InfiniteFuture();
  for (const Entry& entry : entries_) {
    oldest = std::min(oldest, entry.last_read);
  }
  return oldest;
}

}  // namespace headrace
