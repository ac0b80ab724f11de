// One request inside the batch loop: its choices, where each stands, and what
// it has cost so far. Bookkeeping only; the loop does the running.
#ifndef HEADRACE_SERVER_BATCHING_ACTIVE_REQUEST_H_
#define HEADRACE_SERVER_BATCHING_ACTIVE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "engine/batch.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/batching/batch_stats.h"
#include "server/batching/event_stream.h"
#include "server/batching/prompt_lookup.h"
#include "server/batching/request.h"
#include "server/batching/scheduler.h"
#include "server/batching/stream_text.h"

namespace headrace {

// Takes one choice's rows to the request's stream, or to what keeps them.
class ChoiceSink final : public CaptureSink {
 public:
  ChoiceSink(EventStream* stream, const Request& request, int32_t choice)
      : stream_(stream),
        keeper_(request.keeper.get()),
        sends_kept_(request.sends_kept),
        choice_(choice) {}

  void OnRow(const CapturedRow& row) override;
  // Leaves the coming rows out.
  void set_dropping(bool dropping) { dropping_ = dropping; }
  int64_t rows() const { return rows_; }
  int64_t dropped_rows() const { return dropped_rows_; }

 private:
  EventStream* const stream_;
  RowKeeper* const keeper_;  // may be null
  const bool sends_kept_;
  const int32_t choice_;
  bool dropping_ = false;
  int64_t rows_ = 0;
  int64_t dropped_rows_ = 0;
};

enum class ChoiceState : uint8_t {
  kWaiting,
  kRunning,
  kSuspended,  // open in the engine, without blocks
  kEnded
};

struct ActiveChoice {
  ActiveChoice(int32_t index, SequenceId id, const Request& request,
               const Tokenizer* tokenizer, EventStream* stream)
      : index(index),
        id(id),
        text(tokenizer, request, index),
        sink(stream, request, index) {}

  const int32_t index;
  const SequenceId id;
  ChoiceState state = ChoiceState::kWaiting;
  bool open() const {
    return state == ChoiceState::kRunning || state == ChoiceState::kSuspended;
  }
  int64_t next_row = 0;          // rows that have keys and values
  int64_t reported_rows = 0;     // the most there ever were
  std::optional<int32_t> token;  // sampled last, not fed back yet
  bool feeds_last = false;       // has ended but for the row of `token`
  StreamText text;
  ChoiceSink sink;
  // Guesses what comes next; nullopt: not in this choice.
  std::optional<PromptLookup> lookup;
  std::vector<int32_t> drafts;  // guessed to follow `token`
};

// What Submit() takes.
struct Submission {
  Request request;
  std::shared_ptr<EventStream> stream;  // shared with the reader
  // Takes the rows of a single choice in place of the stream; may be null.
  std::unique_ptr<CaptureSink> sink;
};

// Owned by the batch loop.
class ActiveRequest {
 public:
  // Ids of its choices are first_sequence, first_sequence + 1, …
  ActiveRequest(uint64_t order, uint64_t first_sequence, Submission submission,
                const Tokenizer* tokenizer, absl::Time now);

  const Request& request() const { return submission_.request; }
  EventStream& stream() const { return *submission_.stream; }
  std::shared_ptr<EventStream> ShareStream() const {
    return submission_.stream;
  }
  uint64_t order() const { return order_; }
  std::vector<ActiveChoice>& choices() { return choices_; }
  int64_t prompt_length() const {
    return static_cast<int64_t>(request().sequence.prompt.size());
  }

  // Has any choice been admitted? Is the prompt computed?
  bool started() const { return admitted_.has_value(); }
  bool prompt_done() const { return prompt_done_.has_value(); }
  // May this choice be opened, or resumed? Later choices wait until the prompt
  // is computed, and find it in the prefix cache.
  bool ReadyToOpen(const ActiveChoice& choice) const {
    return choice.state == ChoiceState::kSuspended ||
           (choice.state == ChoiceState::kWaiting &&
            (choice.index == 0 || prompt_done()));
  }
  bool AllEnded() const;

  // Rows of a choice up to the token that was sampled last.
  int64_t KnownRows(const ActiveChoice& choice) const {
    return prompt_length() + choice.text.generated();
  }
  // What is left of a choice's life (ServiceCost), at the most.
  int64_t CostLeft(const ActiveChoice& choice) const;
  SequenceOptions OptionsFor(ActiveChoice& choice) const;
  // The scheduler's view, but for its reader and tenant.
  RunningChoice ViewOf(const ActiveChoice& choice) const;
  // `on_read` is called when a paused reader takes something.
  ReaderState ReaderView(const std::function<void()>& on_read) const;

  // Begins to guess, where guesses leave no trace: a choice that is watched row
  // by row must not be computed past a stop string.
  void StartLookup(ActiveChoice& choice) const;
  // Guesses up to `max_drafts` tokens of a running choice.
  void Guess(ActiveChoice& choice, int64_t max_drafts) const;

  void OnAdmitted(absl::Time now, int64_t cached_rows, ActiveChoice& choice);
  void OnPromptDone(absl::Time now);
  void OnToken(absl::Time now);
  // Whether its reader holds a choice of it up; true when that is new.
  bool SetPaused(bool paused, absl::Time now);
  // Notes the selected prompt rows that the prefix cache has.
  void NoteCachedRows(int64_t cached_rows) const;
  // What one choice's capture and interventions came to.
  void AddReport(const SequenceReport& report);

  std::optional<absl::Time> TimeLimit() const;
  EndEvent MakeEnd(absl::Time now);
  std::vector<ChoiceEndEvent> ChoiceEnds() const;
  RequestRecord MakeRecord(absl::StatusCode code, absl::Time now);
  absl::Duration waited(absl::Time now) const { return now - submitted_; }
  absl::Duration stalled() const { return stalled_; }
  // Since when its reader holds it up.
  absl::Time paused_since() const {
    return paused_since_.value_or(absl::InfiniteFuture());
  }
  int64_t generated() const;

 private:
  RequestTimings TimingsAt(absl::Time now) const;

  const uint64_t order_;
  Submission submission_;
  std::vector<ActiveChoice> choices_;
  // captured_rows_[p]: captured among the first p prompt rows; empty when
  // nothing goes to the stream's ring.
  std::vector<int32_t> captured_rows_;
  std::optional<CaptureChecks> checks_;
  std::vector<int64_t> interventions_applied_;
  int64_t cached_rows_ = 0;
  const absl::Time submitted_;
  std::optional<absl::Time> admitted_;
  std::optional<absl::Time> prompt_done_;
  std::optional<absl::Time> first_token_;
  std::optional<absl::Time> paused_since_;
  absl::Duration stalled_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_ACTIVE_REQUEST_H_
