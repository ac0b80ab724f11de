#include "server/batching/active_request.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/random/random.h"

namespace headrace {

namespace {

// captured[p]: how many of the first p prompt rows the plan selects.
std::vector<int32_t> CountCapturedRows(const SequenceOptions& sequence) {
  const auto length = static_cast<int64_t>(sequence.prompt.size());
  std::vector<int32_t> captured(length + 1);
  for (int64_t p = 0; p < length; ++p) {
    const bool selected =
        sequence.capture.rows.Selects(p, sequence.prompt[p], length);
    captured[p + 1] = captured[p] + (selected ? 1 : 0);
  }
  return captured;
}

}  // namespace

void ChoiceSink::OnRow(const CapturedRow& row) {
  if (keeper_ != nullptr && row.derived < 0) {
    keeper_->Add(row);
    if (!sends_kept_) {
      ++rows_;
      return;
    }
  }
  if (dropping_) {
    ++dropped_rows_;
    stream_->AddGap({.choice = choice_,
                     .first_position = row.position,
                     .last_position = row.position});
  } else {
    ++rows_;
    stream_->AddRow(choice_, row);
  }
}

ActiveRequest::ActiveRequest(uint64_t order, uint64_t first_sequence,
                             Submission submission, const Tokenizer* tokenizer,
                             absl::Time now)
    : order_(order), submission_(std::move(submission)), submitted_(now) {
  Request& request = submission_.request;
  if (request.num_choices > 1 && !request.sequence.prefix_salt.has_value()) {
    // The choices still share the prompt among themselves.
    request.sequence.prefix_salt = absl::Uniform<uint64_t>(absl::BitGen());
  }
  if (!request.layout.empty()) {
    captured_rows_ = CountCapturedRows(request.sequence);
  }
  choices_.reserve(request.num_choices);
  for (int32_t i = 0; i < request.num_choices; ++i) {
    choices_.emplace_back(i, SequenceId{first_sequence + i}, request, tokenizer,
                          submission_.stream.get());
  }
}

bool ActiveRequest::AllEnded() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const ActiveChoice& choice) {
                       return choice.state == ChoiceState::kEnded;
                     });
}

SequenceOptions ActiveRequest::OptionsFor(ActiveChoice& choice) const {
  SequenceOptions options = request().sequence;
  options.choice = choice.index;
  options.capture_sink =
      submission_.sink != nullptr ? submission_.sink.get() : &choice.sink;
  if (choice.index > 0) {
    options.logprobs.prompt = false;
    options.capture.rows.prompt = PhaseRows{};
    if (options.capture.rows.generated.empty()) options.capture = CapturePlan{};
  }
  return options;
}

int64_t ActiveRequest::CostLeft(const ActiveChoice& choice) const {
  // Later choices find the prompt in the prefix cache.
  const int64_t prompt_rows =
      choice.index == 0
          ? std::max<int64_t>(0, prompt_length() - choice.reported_rows)
          : 0;
  return ServiceCost(prompt_rows,
                     request().stop.max_tokens - choice.text.generated());
}

RunningChoice ActiveRequest::ViewOf(const ActiveChoice& choice) const {
  const SequenceOptions& sequence = request().sequence;
  RunningChoice view{.id = choice.id,
                     .priority = request().priority,
                     .order = order_,
                     .ring_cost = request().layout.ring_cost_per_position};
  view.replay_rows = choice.reported_rows - choice.next_row;
  view.prompt_rows =
      std::max<int64_t>(0, prompt_length() - choice.reported_rows);
  if (view.prompt_rows > 0) {
    view.prompt_events = sequence.logprobs.prompt && choice.index == 0;
    if (choice.index == 0 && !captured_rows_.empty()) {
      view.captured_rows =
          std::span(captured_rows_).subspan(choice.reported_rows);
    }
  } else if (!captured_rows_.empty()) {
    view.captures_token = sequence.capture.rows.Selects(
        choice.reported_rows, *choice.token, prompt_length());
    view.captures_drafts = !sequence.capture.rows.generated.empty();
  }
  if (choice.lookup.has_value()) {
    view.drafts = std::ssize(choice.drafts);
    view.draft_acceptance = choice.lookup->acceptance();
  }
  return view;
}

ReaderState ActiveRequest::ReaderView(
    const std::function<void()>& on_read) const {
  const EventStream::Room room =
      paused_since_.has_value() ? stream().WatchRoom(on_read) : stream().room();
  const EventStream::Room capacity = stream().capacity();
  return {.policy = request().delivery.policy,
          .token_room = room.token_events,
          .token_capacity = capacity.token_events,
          .ring_room = room.ring_bytes,
          .ring_capacity = capacity.ring_bytes};
}

void ActiveRequest::StartLookup(ActiveChoice& choice) const {
  const SequenceOptions& sequence = request().sequence;
  const bool watched =
      !sequence.capture.empty() || !sequence.interventions.empty();
  if (choice.lookup.has_value() || sequence.capture.Averages() ||
      (watched && !request().stop.stop_strings.empty())) {
    return;
  }
  choice.lookup.emplace(sequence.prompt);
}

void ActiveRequest::Guess(ActiveChoice& choice, int64_t max_drafts) const {
  choice.drafts.clear();
  if (!choice.lookup.has_value() || choice.feeds_last ||
      choice.next_row + 1 != KnownRows(choice)) {
    return;
  }
  // The token to be fed yields one more, and every draft another.
  const int64_t tokens_left =
      request().stop.max_tokens - choice.text.generated();
  choice.drafts = choice.lookup->Guess(std::min(max_drafts, tokens_left - 1));
}

void ActiveRequest::OnAdmitted(absl::Time now, int64_t cached_rows,
                               ActiveChoice& choice) {
  choice.state = ChoiceState::kRunning;
  choice.next_row = cached_rows;
  choice.reported_rows = std::max(choice.reported_rows, cached_rows);
  if (!started()) {
    admitted_ = now;
    cached_rows_ = cached_rows;  // what later choices share is not saved work
    stream().Start();
    NoteCachedRows(cached_rows);
  }
}

void ActiveRequest::NoteCachedRows(int64_t cached_rows) const {
  const SequenceOptions& sequence = request().sequence;
  if (sequence.capture.empty()) return;
  for (int64_t p = 0; p < cached_rows; ++p) {
    if (!sequence.capture.rows.Selects(p, sequence.prompt[p],
                                       prompt_length())) {
      continue;
    }
    stream().AddGap({.first_position = p, .last_position = p, .cached = true});
  }
}

void ActiveRequest::OnPromptDone(absl::Time now) {
  if (prompt_done()) return;
  prompt_done_ = now;
  stream().FlushPrompt();
}

void ActiveRequest::OnToken(absl::Time now) {
  if (!first_token_.has_value()) first_token_ = now;
}

bool ActiveRequest::SetPaused(bool paused, absl::Time now) {
  if (paused == paused_since_.has_value()) return false;
  if (paused) {
    paused_since_ = now;
  } else {
    stalled_ += now - *paused_since_;
    paused_since_.reset();
  }
  return paused;
}

void ActiveRequest::AddReport(const SequenceReport& report) {
  const std::vector<int64_t>& applied = report.interventions_applied;
  interventions_applied_.resize(applied.size());
  for (size_t i = 0; i < applied.size(); ++i) {
    interventions_applied_[i] += applied[i];
  }
  if (!request().sequence.capture.checks) return;
  if (!checks_.has_value()) checks_.emplace();
  checks_->Merge(report.checks);
}

std::optional<absl::Time> ActiveRequest::TimeLimit() const {
  if (!started() || !request().stop.time_limit.has_value()) {
    return std::nullopt;
  }
  return *admitted_ + *request().stop.time_limit;
}

int64_t ActiveRequest::generated() const {
  int64_t generated = 0;
  for (const ActiveChoice& choice : choices_) {
    generated += choice.text.generated();
  }
  return generated;
}

std::vector<ChoiceEndEvent> ActiveRequest::ChoiceEnds() const {
  std::vector<ChoiceEndEvent> ends;
  for (const ActiveChoice& choice : choices_) {
    ends.push_back(choice.text.end());
  }
  return ends;
}

EndEvent ActiveRequest::MakeEnd(absl::Time now) {
  SetPaused(false, now);
  std::optional<KeptReceipt> kept;
  if (request().keeper != nullptr) kept = request().keeper->Finish();
  return {.prompt_tokens = prompt_length(),
          .cached_tokens = cached_rows_,
          .generated_tokens = generated(),
          .timings = TimingsAt(now),
          .checks = checks_,
          .interventions_applied = interventions_applied_,
          .kept = std::move(kept)};
}

RequestRecord ActiveRequest::MakeRecord(absl::StatusCode code, absl::Time now) {
  SetPaused(false, now);
  return {.code = code,
          .timings = TimingsAt(now),
          .total = now - submitted_,
          .time_to_first_token = first_token_.has_value()
                                     ? *first_token_ - submitted_
                                     : absl::InfiniteDuration(),
          .prompt_tokens = prompt_length(),
          .generated_tokens = generated()};
}

RequestTimings ActiveRequest::TimingsAt(absl::Time now) const {
  const absl::Time admitted = admitted_.value_or(now);
  const absl::Time prompt_done = prompt_done_.value_or(now);
  return {.queue = admitted - submitted_,
          .prefill = prompt_done - admitted,
          .decode = now - prompt_done,
          .stalled = stalled_};
}

}  // namespace headrace
