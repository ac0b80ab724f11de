#include "server/batching/batcher.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "server/batching/moving_mean.h"

namespace headrace {

namespace {

int64_t RowsOf(const Batch& batch) {
  int64_t rows = 0;
  for (const SequenceSlice& slice : batch.slices) {
    rows += slice.num_rows + std::ssize(slice.drafts);
  }
  return rows;
}

}  // namespace

// The account of a number starts with what the tenant was served.
class Batcher::TenantNumbers {
 public:
  TenantNumbers(const TenantLedger& ledger, std::vector<int64_t>& accounts)
      : ledger_(ledger), accounts_(accounts) {
    accounts_.clear();
  }
  size_t Of(const std::string& tenant) {
    const auto [found, is_new] = numbers_.try_emplace(tenant, accounts_.size());
    if (is_new) accounts_.push_back(ledger_.served(tenant));
    return found->second;
  }

 private:
  const TenantLedger& ledger_;
  std::vector<int64_t>& accounts_;
  absl::flat_hash_map<std::string, size_t> numbers_;
};

Batcher::Batcher(Engine* engine, BatcherOptions options,
                 std::function<void()> on_read)
    : engine_(engine),
      options_(std::move(options)),
      on_read_(std::move(on_read)),
      unread_(on_read_) {}

void Batcher::Add(RequestId id, Submission submission, absl::Time now) {
  auto request = std::make_unique<ActiveRequest>(
      static_cast<uint64_t>(id), next_sequence_, std::move(submission),
      engine_->tokenizer(), now);
  next_sequence_ += request->choices().size();
  ledger_.Enter(request->request().tenant);
  CheckFits(*request, now);
  active_.emplace(id, std::move(request));
}

void Batcher::CheckFits(ActiveRequest& request, absl::Time now) {
  const KvCacheStats kv_cache = engine_->kv_cache();
  absl::Status status = CheckFitsKvCache(
      request.request(), kv_cache.total_blocks * kv_cache.block_size);
  if (!status.ok()) Fail(request, std::move(status), now);
}

void Batcher::End(RequestId id, absl::Status status, absl::Time now) {
  const auto found = active_.find(id);
  if (found != active_.end()) Fail(*found->second, std::move(status), now);
}

void Batcher::EndIfQueued(RequestId id, absl::Status status, absl::Time now) {
  const auto found = active_.find(id);
  if (found != active_.end() && !found->second->started()) {
    Fail(*found->second, std::move(status), now);
  }
}

std::vector<QueuedRequest> Batcher::Queued() const {
  std::vector<QueuedRequest> queued;
  for (const auto& [id, request] : active_) {
    if (request->started() || request->AllEnded()) continue;
    queued.push_back({.id = static_cast<uint64_t>(id),
                      .priority = request->request().priority,
                      .tenant = request->request().tenant});
  }
  return queued;
}

void Batcher::EndAll(const absl::Status& status, absl::Time now) {
  for (const auto& [id, request] : active_) Fail(*request, status, now);
}

void Batcher::EndQueued(const absl::Status& status, absl::Time now) {
  for (const auto& [id, request] : active_) {
    if (!request->started()) Fail(*request, status, now);
  }
}

void Batcher::Prepare(absl::Time now) {
  EndExpired(now);
  unread_.Update(now);
  Admit(now);
  if (SomeoneWaits() && EndIdleReaders(now)) Admit(now);
  RemoveEnded();
}

void Batcher::EndExpired(absl::Time now) {
  for (const auto& [id, request] : active_) {
    if (request->AllEnded()) continue;
    if (request->request().deadline <= now) {
      Fail(
          *request,
          absl::DeadlineExceededError(absl::StrCat(
              "the deadline passed ", request->started() ? "" : "in the queue ",
              "after ", absl::FormatDuration(request->waited(now)), " and ",
              request->generated(), " generated tokens")),
          now);
    } else if (request->TimeLimit().value_or(absl::InfiniteFuture()) <= now) {
      for (ActiveChoice& choice : request->choices()) {
        choice.text.Finish(FinishReason::kTimeLimit);
        EndChoice({request.get(), &choice}, now);
      }
    }
  }
}

AdmissionState Batcher::StateOfAdmission() const {
  const KvCacheStats kv_cache = engine_->kv_cache();
  AdmissionState state{
      .free_blocks = kv_cache.total_blocks - kv_cache.used_blocks,
      .running = static_cast<int64_t>(sequences_.size()),
      .ring_bytes = unread_.held_bytes()};
  TenantNumbers tenants(ledger_, state.accounts);
  if (options_.limits.preemption) {
    for (const auto& [id, ref] : sequences_) {
      const Request& request = ref.request->request();
      state.admitted.push_back(
          {.id = id,
           .priority = request.priority,
           .order = ref.request->order(),
           .blocks = engine_->BlocksFor(request.sequence.max_rows)});
    }
  }
  for (const auto& [id, request] : active_) {
    const CaptureLayout& layout = request->request().layout;
    const int64_t ring_bytes =
        layout.ring_bytes + layout.end_bytes * request->request().num_choices;
    const size_t tenant = tenants.Of(request->request().tenant);
    if (request->started() && !request->AllEnded()) {
      state.ring_bytes += ring_bytes;
    }
    for (const ActiveChoice& choice : request->choices()) {
      if (choice.state == ChoiceState::kRunning) {
        state.accounts[tenant] += request->CostLeft(choice);
      }
      if (!request->ReadyToOpen(choice)) continue;
      state.waiting.push_back(
          {.id = choice.id,
           .priority = request->request().priority,
           .order = request->order(),
           .tenant = tenant,
           .cost = request->CostLeft(choice),
           .blocks = engine_->BlocksFor(request->request().sequence.max_rows),
           .ring_bytes = request->started() ? 0 : ring_bytes});
    }
  }
  return state;
}

void Batcher::Admit(absl::Time now) {
  absl::flat_hash_map<SequenceId, SequenceRef> waiting;
  for (const auto& [id, request] : active_) {
    for (ActiveChoice& choice : request->choices()) {
      if (request->ReadyToOpen(choice)) {
        waiting[choice.id] = {request.get(), &choice};
      }
    }
  }
  // Each turn but the last suspends somebody, so it comes to an end.
  while (true) {
    const AdmissionDecision decision =
        DecideAdmission(StateOfAdmission(), options_.limits);
    for (const SequenceId id : decision.admit) Open(waiting.at(id), now);
    if (decision.suspend.empty()) return;
    for (const SequenceId id : decision.suspend) {
      const auto found = sequences_.find(id);
      if (found == sequences_.end()) continue;  // a sister just failed
      waiting[id] = found->second;
      Suspend(found->second);
    }
  }
}

void Batcher::Open(SequenceRef ref, absl::Time now) {
  const auto [request, choice] = ref;
  if (choice->state == ChoiceState::kEnded) return;  // a sister just failed
  const absl::StatusOr<OpenedSequence> opened =
      choice->state == ChoiceState::kSuspended
          ? engine_->ResumeSequence(choice->id)
          : engine_->OpenSequence(choice->id, request->OptionsFor(*choice));
  if (!opened.ok()) {
    Fail(*request, opened.status(), now);
    return;
  }
  request->OnAdmitted(now, opened->cached_rows, *choice);
  if (options_.max_drafts > 0) request->StartLookup(*choice);
  sequences_[choice->id] = ref;
}

void Batcher::Suspend(SequenceRef ref) {
  engine_->SuspendSequence(ref.choice->id);
  ref.choice->state = ChoiceState::kSuspended;
  ref.choice->next_row = 0;
  sequences_.erase(ref.choice->id);
  ++totals_.suspensions;
}

bool Batcher::SomeoneWaits() const {
  return std::any_of(active_.begin(), active_.end(), [](const auto& entry) {
    ActiveRequest& request = *entry.second;
    if (!request.started()) return !request.AllEnded();
    return std::any_of(request.choices().begin(), request.choices().end(),
                       [](const ActiveChoice& choice) {
                         return choice.state == ChoiceState::kSuspended;
                       });
  });
}

// Readers that took nothing for too long give way to those who wait.
bool Batcher::EndIdleReaders(absl::Time now) {
  const absl::Time since = now - options_.max_reader_stall;
  const absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
      "the client has not kept up with its stream for ",
      absl::FormatDuration(options_.max_reader_stall),
      ", the limit while other requests wait for what it occupies"));
  bool ended = unread_.FailIdle(since, status);
  for (const auto& [id, request] : active_) {
    if (request->paused_since() > since) continue;
    Fail(*request, status, now);
    ended = true;
  }
  return ended;
}

bool Batcher::Step(absl::Time now) {
  const bool ran = RunStep(now);
  RemoveEnded();
  return ran;
}

bool Batcher::RunStep(absl::Time now) {
  GuessTokens();
  const StepDecision decision = Decide();
  const bool look_again = NotePauses(decision, now);
  EndOverrun(decision, now);
  const Batch batch = MakeBatch(decision);
  if (batch.slices.empty()) return look_again || !decision.overrun.empty();

  const absl::Time started = options_.now();
  absl::StatusOr<StepResult> result = Compute(batch);
  const absl::Time done = options_.now();
  ++totals_.steps;
  costs_.Measure(RowsOf(batch), done - started);
  if (!result.ok()) {
    LOG(ERROR) << "the engine refused a batch: " << result.status();
    for (const SequenceSlice& slice : batch.slices) {
      const auto found = sequences_.find(slice.sequence);
      if (found == sequences_.end()) continue;
      Fail(*found->second.request,
           absl::InternalError(result.status().message()), done);
    }
    return true;
  }
  Distribute(batch, *std::move(result), done);
  return true;
}

void Batcher::GuessTokens() {
  const bool few = std::ssize(sequences_) <= kMaxDraftingSequences;
  for (const auto& [id, ref] : sequences_) {
    ref.request->Guess(*ref.choice, few ? options_.max_drafts : 0);
  }
}

StepDecision Batcher::Decide() const {
  StepState state{.costs = costs_};
  TenantNumbers tenants(ledger_, state.accounts);
  for (const auto& [id, request] : active_) {
    const size_t reader = state.readers.size();
    bool runs = false;
    for (const ActiveChoice& choice : request->choices()) {
      if (choice.state != ChoiceState::kRunning) continue;
      RunningChoice view = request->ViewOf(choice);
      view.tenant = tenants.Of(request->request().tenant);
      view.reader = reader;
      state.running.push_back(view);
      runs = true;
    }
    if (runs) {
      state.readers.push_back(request->ReaderView(on_read_));
    }
  }
  return DecideStep(state, options_.limits);
}

// True when a sequence is newly paused: its reader is watched from the next
// look on, so that no room made in between is missed.
bool Batcher::NotePauses(const StepDecision& decision, absl::Time now) {
  std::vector<ActiveRequest*> paused;
  paused.reserve(decision.paused.size());
  for (const SequenceId id : decision.paused) {
    paused.push_back(sequences_.at(id).request);
  }
  bool news = false;
  for (const auto& [id, request] : active_) {
    const bool is_paused =
        std::find(paused.begin(), paused.end(), request.get()) != paused.end();
    news |= request->SetPaused(is_paused, now);
  }
  totals_.paused_sequences = static_cast<int64_t>(paused.size());
  return news;
}

void Batcher::EndOverrun(const StepDecision& decision, absl::Time now) {
  for (const SequenceId id : decision.overrun) {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) continue;  // a sister choice ended it
    const auto capacity = found->second.request->stream().capacity();
    Fail(*found->second.request,
         absl::ResourceExhaustedError(absl::StrCat(
             "the client reads slower than the model writes: its buffers of ",
             capacity.token_events, " tokens and ", capacity.ring_bytes,
             " bytes of activations are full")),
         now);
  }
}

Batch Batcher::MakeBatch(const StepDecision& decision) {
  Batch batch;
  for (const StepDecision::Slice& slice : decision.slices) {
    const auto found = sequences_.find(slice.id);
    if (found == sequences_.end()) continue;  // ended by an overrun just now
    const auto [request, choice] = found->second;
    choice->sink.set_dropping(slice.drop_rows);
    SequenceSlice& added = batch.slices.emplace_back(SequenceSlice{
        .sequence = slice.id,
        .num_rows = slice.num_rows,
        .sample =
            !choice->feeds_last && request->request().stop.max_tokens > 0});
    if (!choice->drafts.empty()) {
      added.num_rows = 1;
      added.drafts.assign(choice->drafts.begin(),
                          choice->drafts.begin() + slice.num_rows - 1);
    }
  }
  return batch;
}

absl::StatusOr<StepResult> Batcher::Compute(const Batch& batch) {
  step_started_nanos_ = absl::ToUnixNanos(options_.now());
  absl::StatusOr<StepResult> result = engine_->Step(batch);
  step_started_nanos_ = 0;
  return result;
}

void Batcher::Distribute(const Batch& batch, StepResult result,
                         absl::Time now) {
  CHECK_EQ(batch.slices.size(), result.sequences.size());
  std::vector<EventStream*> streams;
  for (size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    const auto found = sequences_.find(slice.sequence);
    if (found == sequences_.end()) continue;  // a sister choice failed
    streams.push_back(&found->second.request->stream());
    TakeResult(slice, std::move(result.sequences[i]), now);
  }
  for (EventStream* stream : streams) stream->Publish();
}

void Batcher::TakeResult(const SequenceSlice& slice, SequenceResult result,
                         absl::Time now) {
  const SequenceRef ref = sequences_.at(slice.sequence);
  const int64_t accepted = std::max<int64_t>(0, std::ssize(result.sampled) - 1);
  CountDrafts(*ref.choice, std::ssize(slice.drafts), accepted);
  if (!result.status.ok()) {
    TakeTokens(ref, std::move(result.sampled), now);
    Fail(*ref.request, std::move(result.status), now);
    return;
  }
  const int64_t reported = ref.choice->reported_rows;
  const bool was_prompt = reported < ref.request->prompt_length();
  ref.choice->next_row += slice.num_rows + accepted;
  ref.choice->reported_rows = std::max(reported, ref.choice->next_row);
  const int64_t new_rows = ref.choice->reported_rows - reported;
  totals_.recomputed_rows += slice.num_rows + accepted - new_rows;
  ledger_.Charge(ref.request->request().tenant, was_prompt
                                                    ? ServiceCost(new_rows, 0)
                                                    : ServiceCost(0, new_rows));
  for (PositionLogprobs& logprobs : result.prompt_logprobs) {
    ref.request->stream().Push(PromptLogprobsEvent{std::move(logprobs)});
  }
  if (was_prompt) totals_.prompt_tokens_computed += new_rows;
  if (ref.choice->next_row < ref.request->KnownRows(*ref.choice)) return;
  ref.request->OnPromptDone(now);
  if (!result.sampled.empty()) {
    TakeTokens(ref, std::move(result.sampled), now);
    return;
  }
  // The prompt is all that was asked for, or the last token has been fed.
  ref.choice->text.Finish(FinishReason::kMaxTokens);
  EndChoice(ref, now);
}

void Batcher::CountDrafts(ActiveChoice& choice, int64_t drafted,
                          int64_t accepted) {
  if (choice.drafts.empty() || !choice.lookup.has_value()) return;
  totals_.drafted_tokens += drafted;
  totals_.accepted_tokens += accepted;
  if (drafted > 0) {
    choice.lookup->OnOutcome(drafted, accepted);
  } else {
    choice.lookup->OnUntried();
  }
}

void Batcher::TakeTokens(SequenceRef ref, std::vector<PositionLogprobs> sampled,
                         absl::Time now) {
  for (size_t i = 0; i < sampled.size(); ++i) {
    TakeSampled(ref, std::move(sampled[i]), now);
    if (!ref.choice->text.finished()) continue;
    // What was drawn past a stop string is as if it had never been; the row of
    // the last token is among those that were computed.
    if (i + 1 < sampled.size()) EndChoice(ref, now);
    return;
  }
}

void Batcher::TakeSampled(SequenceRef ref, PositionLogprobs sampled,
                          absl::Time now) {
  ++totals_.generated_tokens;
  ref.request->OnToken(now);
  const Request& request = ref.request->request();
  const int32_t token = sampled.token.token;
  TokenEvent event = ref.choice->text.Add(token);
  if (request.sequence.logprobs.enabled) event.logprobs = std::move(sampled);
  ref.request->stream().Push(std::move(event));
  ref.choice->token = token;
  if (ref.choice->lookup.has_value()) ref.choice->lookup->Add(token);
  if (!ref.choice->text.finished()) return;
  if (request.delivery.feed_last_token) {
    ref.choice->feeds_last = true;
  } else {
    EndChoice(ref, now);
  }
}

void Batcher::EndChoice(SequenceRef ref, absl::Time now) {
  auto [request, choice] = ref;
  if (choice->state == ChoiceState::kEnded) return;
  if (choice->open()) {
    choice->sink.set_dropping(false);  // there is room for what comes last
    engine_->FinishSequence(choice->id);
    request->AddReport(engine_->report(choice->id));
    engine_->CloseSequence(choice->id);
    sequences_.erase(choice->id);
  }
  choice->state = ChoiceState::kEnded;
  if (!request->AllEnded()) return;
  Record(*request, absl::StatusCode::kOk, now);
  request->stream().Finish(request->ChoiceEnds(), request->MakeEnd(now));
  if (!request->request().layout.empty()) {
    unread_.Add(request->ShareStream(), now);
  }
}

void Batcher::Fail(ActiveRequest& request, absl::Status status,
                   absl::Time now) {
  if (request.AllEnded()) return;
  for (ActiveChoice& choice : request.choices()) {
    if (choice.open()) {
      engine_->CloseSequence(choice.id);
      sequences_.erase(choice.id);
    }
    choice.state = ChoiceState::kEnded;
  }
  Record(request, status.code(), now);
  request.stream().Fail(std::move(status));
}

void Batcher::Record(ActiveRequest& request, absl::StatusCode code,
                     absl::Time now) {
  const RequestRecord record = request.MakeRecord(code, now);
  totals_.stalled += request.stalled();
  for (const ActiveChoice& choice : request.choices()) {
    totals_.captured_rows += choice.sink.rows();
    totals_.dropped_rows += choice.sink.dropped_rows();
  }
  if (request.started()) {
    mean_service_ =
        MovingMean(mean_service_, record.total - record.timings.queue);
  }
  if (options_.on_request_done) options_.on_request_done(record);
}

void Batcher::RemoveEnded() {
  absl::erase_if(active_, [this](const auto& entry) {
    const ActiveRequest& request = *entry.second;
    if (!request.AllEnded()) return false;
    ledger_.Leave(request.request().tenant);
    return true;
  });
}

BatchStats Batcher::Stats() const {
  BatchStats stats = totals_;
  stats.kv_cache = engine_->kv_cache();
  stats.running_sequences = static_cast<int64_t>(sequences_.size());
  stats.ring_bytes = unread_.held_bytes();
  for (const auto& [id, request] : active_) {
    ++(request->started() ? stats.running_requests : stats.queued_requests);
    stats.ring_bytes += request->stream().ring_used_bytes();
    stats.suspended_sequences +=
        std::count_if(request->choices().begin(), request->choices().end(),
                      [](const ActiveChoice& choice) {
                        return choice.state == ChoiceState::kSuspended;
                      });
  }
  return stats;
}

absl::Duration Batcher::StepTime() const {
  const int64_t started = step_started_nanos_.load(std::memory_order_relaxed);
  if (started == 0) return absl::ZeroDuration();
  return options_.now() - absl::FromUnixNanos(started);
}

absl::Time Batcher::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  absl::Time oldest_read = unread_.OldestRead();
  for (const auto& [id, request] : active_) {
    next = std::min({next, request->request().deadline,
                     request->TimeLimit().value_or(absl::InfiniteFuture())});
    oldest_read = std::min(oldest_read, request->paused_since());
  }
  if (!SomeoneWaits()) return next;
  return std::min(next, oldest_read + options_.max_reader_stall);
}

}  // namespace headrace
