// The bounded stream of one request between the batch loop and its reader.
// Tokens have a queue of their own beside the activation ring, so a token is
// never delayed by tensors; both are bounded, and the scheduler runs a request
// only when there is room for what its step can send.
#ifndef HEADRACE_SERVER_BATCHING_EVENT_STREAM_H_
#define HEADRACE_SERVER_BATCHING_EVENT_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/batching/activation_ring.h"
#include "server/batching/capture_layout.h"
#include "server/batching/events.h"
#include "server/batching/stream_cursor.h"

namespace headrace {

// Thread-safe. Shared by the batch loop, which writes, and one reader.
class EventStream {
 public:
  struct Room {
    int64_t token_events = 0;
    int64_t ring_bytes = 0;
  };

  // `token_events`: tokens and prompt log probabilities that may wait; at
  // least 2. What was `received` is not sent again. `on_events` is called, from
  // the writer's thread, when there is something to read after Pop() found
  // nothing; it must not block.
  EventStream(const CaptureLayout& layout, int64_t token_events,
              std::function<void()> on_events, StreamCursor received = {});

  // --- The reader.
  // The next event: the start, then tokens before chunks, the ends last.
  // Nullopt: nothing yet, `on_events` will call.
  std::optional<StreamEvent> Pop() ABSL_LOCKS_EXCLUDED(mutex_);
  // The reader is gone: frees everything; later events are discarded.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);

  // --- The writer. Events become visible with Publish(), rows at once.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(TokenEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(PromptLogprobsEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddRow(int32_t choice, const CapturedRow& row)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void AddGap(const RowGap& gap) ABSL_LOCKS_EXCLUDED(mutex_);
  void FlushPrompt() ABSL_LOCKS_EXCLUDED(mutex_);
  void Publish() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream; fills in EndEvent's rows and gaps. Publishes.
  void Finish(std::vector<ChoiceEndEvent> choices, EndEvent end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends it with an error: rows are dropped, tokens still delivered.
  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  Room room() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same; and calls `on_read`, once, when the reader next takes something.
  // It is called from the reader's thread and must not block.
  Room WatchRoom(std::function<void()> on_read) ABSL_LOCKS_EXCLUDED(mutex_);
  Room capacity() const { return capacity_; }
  int64_t ring_used_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Those, and the chunk that was popped last: it is on its way.
  int64_t held_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t events_taken() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is left to read, and nothing will come.
  bool AllRead() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::optional<StreamEvent> PopLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room RoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasEvent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Room capacity_;
  const std::function<void()> on_events_;

  mutable absl::Mutex mutex_;
  bool start_pending_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<StreamEvent> tokens_ ABSL_GUARDED_BY(mutex_);
  ActivationRing ring_ ABSL_GUARDED_BY(mutex_);
  StreamCursor received_ ABSL_GUARDED_BY(mutex_);
  std::deque<StreamEvent> ends_ ABSL_GUARDED_BY(mutex_);
  bool reader_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool end_popped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t events_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t popped_chunk_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> on_read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_EVENT_STREAM_H_
