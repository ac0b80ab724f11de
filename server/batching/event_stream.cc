#include "server/batching/event_stream.h"

#include <utility>

namespace headrace {

EventStream::EventStream(const CaptureLayout& layout, int64_t token_events,
                         std::function<void()> on_events, StreamCursor received)
    : capacity_{.token_events = token_events, .ring_bytes = layout.ring_bytes},
      on_events_(std::move(on_events)),
      ring_(layout, std::move(received.rows)),
      received_(std::move(received)) {}

std::optional<StreamEvent> EventStream::Pop() {
  std::function<void()> on_read;
  std::optional<StreamEvent> event;
  {
    const absl::MutexLock lock(&mutex_);
    event = PopLocked();
    const auto* chunk =
        event.has_value() ? std::get_if<ActivationChunk>(&*event) : nullptr;
    popped_chunk_bytes_ =
        chunk == nullptr ? 0 : static_cast<int64_t>(chunk->data.size());
    if (event.has_value()) {
      ++events_taken_;
      on_read = std::exchange(on_read_, nullptr);
    } else {
      reader_waits_ = true;
    }
  }
  if (on_read) on_read();
  return event;
}

std::optional<StreamEvent> EventStream::PopLocked() {
  if (start_pending_) {
    start_pending_ = false;
    return StartedEvent{};
  }
  if (!tokens_.empty()) {
    StreamEvent event = std::move(tokens_.front());
    tokens_.pop_front();
    return event;
  }
  if (std::optional<ActivationChunk> chunk = ring_.TakeChunk()) {
    return StreamEvent(*std::move(chunk));
  }
  if (ends_.empty()) return std::nullopt;
  StreamEvent event = std::move(ends_.front());
  ends_.pop_front();
  end_popped_ = ends_.empty();
  if (EndEvent* end = std::get_if<EndEvent>(&event)) {
    end->rows = ring_.rows_taken();
    end->gaps = ring_.TakeGaps();
  }
  return event;
}

bool EventStream::HasEvent() const {
  return start_pending_ || !tokens_.empty() || ring_.HasChunk() ||
         !ends_.empty();
}

void EventStream::Abandon() {
  std::function<void()> on_read;
  {
    const absl::MutexLock lock(&mutex_);
    abandoned_ = true;
    start_pending_ = false;
    tokens_.clear();
    ring_.Clear();
    ends_.clear();
    popped_chunk_bytes_ = 0;
    on_read = std::exchange(on_read_, nullptr);
  }
  if (on_read) on_read();
}

void EventStream::Start() {
  const absl::MutexLock lock(&mutex_);
  start_pending_ = !abandoned_;
}

void EventStream::Push(TokenEvent event) {
  const absl::MutexLock lock(&mutex_);
  const auto choice = static_cast<size_t>(event.choice);
  const bool was_received = choice < received_.tokens.size() &&
                            event.index < received_.tokens[choice];
  if (!abandoned_ && !was_received) tokens_.push_back(std::move(event));
}

void EventStream::Push(PromptLogprobsEvent event) {
  const absl::MutexLock lock(&mutex_);
  if (received_.prompt_logprobs > 0) {
    --received_.prompt_logprobs;
    return;
  }
  if (!abandoned_) tokens_.push_back(std::move(event));
}

void EventStream::AddRow(int32_t choice, const CapturedRow& row) {
  const absl::MutexLock lock(&mutex_);
  if (!abandoned_) ring_.Add(choice, row);
}

void EventStream::AddGap(const RowGap& gap) {
  const absl::MutexLock lock(&mutex_);
  if (!abandoned_) ring_.AddGap(gap);
}

void EventStream::FlushPrompt() {
  const absl::MutexLock lock(&mutex_);
  ring_.FlushPrompt();
}

void EventStream::Publish() {
  {
    const absl::MutexLock lock(&mutex_);
    if (!reader_waits_ || !HasEvent()) return;
    reader_waits_ = false;
  }
  if (on_events_) on_events_();
}

void EventStream::Finish(std::vector<ChoiceEndEvent> choices, EndEvent end) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!abandoned_) {
      ring_.FlushPrompt();
      for (ChoiceEndEvent& choice : choices) ends_.push_back(std::move(choice));
      ends_.push_back(std::move(end));
    }
  }
  Publish();
}

void EventStream::Fail(absl::Status status) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!abandoned_) {
      ring_.Clear();
      ends_.clear();
      ends_.push_back(FailedEvent{std::move(status)});
    }
  }
  Publish();
}

EventStream::Room EventStream::room() const {
  const absl::MutexLock lock(&mutex_);
  return RoomLocked();
}

EventStream::Room EventStream::WatchRoom(std::function<void()> on_read) {
  const absl::MutexLock lock(&mutex_);
  on_read_ = std::move(on_read);
  return RoomLocked();
}

EventStream::Room EventStream::RoomLocked() const {
  return {.token_events =
              capacity_.token_events - static_cast<int64_t>(tokens_.size()),
          .ring_bytes = ring_.free_bytes()};
}

int64_t EventStream::ring_used_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return ring_.used_bytes();
}

int64_t EventStream::held_bytes() const {
  const absl::MutexLock lock(&mutex_);
  return ring_.used_bytes() + popped_chunk_bytes_;
}

int64_t EventStream::events_taken() const {
  const absl::MutexLock lock(&mutex_);
  return events_taken_;
}

bool EventStream::AllRead() const {
  const absl::MutexLock lock(&mutex_);
  return abandoned_ || end_popped_;
}

}  // namespace headrace
