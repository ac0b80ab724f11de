// Streams of requests that have ended while captured rows still wait for their
// readers: they cost no computing, but memory.
#ifndef HEADRACE_SERVER_BATCHING_UNREAD_STREAMS_H_
#define HEADRACE_SERVER_BATCHING_UNREAD_STREAMS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/event_stream.h"

namespace headrace {

// Owned by the batch loop.
class UnreadStreams {
 public:
  // `on_read` is called from a reader's thread when something was taken.
  explicit UnreadStreams(std::function<void()> on_read)
      : on_read_(std::move(on_read)) {}

  // Keeps `stream` until it is read or abandoned.
  void Add(std::shared_ptr<EventStream> stream, absl::Time now);
  // Looks at what was read.
  void Update(absl::Time now);
  // Ends those that nobody has read from since `since`; true when there were.
  bool FailIdle(absl::Time since, const absl::Status& status);

  // What they held at the last look.
  int64_t held_bytes() const;
  // Of the one that was read from the longest time ago.
  absl::Time OldestRead() const;

 private:
  struct Entry {
    std::shared_ptr<EventStream> stream;
    int64_t held_bytes = 0;
    int64_t events_taken = 0;
    absl::Time last_read;
  };

  const std::function<void()> on_read_;
  std::vector<Entry> entries_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_UNREAD_STREAMS_H_
