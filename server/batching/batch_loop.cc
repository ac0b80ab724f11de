#include "server/batching/batch_loop.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "server/batching/retry_after.h"

namespace headrace {

namespace {

constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(100);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(60);

absl::Status DrainingError() {
  return WithRetryAfter(
      absl::UnavailableError("the server is shutting down; try another"),
      absl::Seconds(1));
}

}  // namespace

BatchLoop::BatchLoop(Engine* engine, BatchLoopOptions options)
    : options_(std::move(options)),
      batcher_(engine, options_.batcher, [this] { Wake(); }) {
  stats_ = batcher_.Stats();
}

BatchLoop::~BatchLoop() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    draining_ = true;
    inbox_.cancel_all = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  } else {
    RunOnce();
  }
}

void BatchLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void BatchLoop::Run() {
  while (true) {
    if (RunOnce()) continue;
    const absl::MutexLock lock(&mutex_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !inbox_.empty() || stopping_;
    };
    mutex_.AwaitWithDeadline(absl::Condition(&ready), batcher_.NextDeadline());
    if (stopping_ && inbox_.empty()) return;
  }
}

absl::StatusOr<RequestId> BatchLoop::Submit(Submission submission) {
  const Request& request = submission.request;
  if (request.deadline <= options_.batcher.now()) {
    return absl::DeadlineExceededError(
        "the deadline had passed when the request arrived");
  }
  const absl::MutexLock lock(&mutex_);
  if (draining_) {
    ++stats_.rejected_requests;
    return DrainingError();
  }
  if (std::ssize(queued_) >= options_.max_queue) {
    ++stats_.rejected_requests;
    const std::optional<uint64_t> displaced =
        DecideDisplacement(queued_, request.tenant, request.priority);
    if (!displaced.has_value()) return QueueFullError();
    inbox_.displaced.push_back(RequestId{*displaced});
    std::erase_if(queued_, [&](const QueuedRequest& queued) {
      return queued.id == *displaced;
    });
  }
  const RequestId id{next_request_++};
  queued_.push_back({.id = static_cast<uint64_t>(id),
                     .priority = request.priority,
                     .tenant = request.tenant});
  stats_.queued_requests = std::ssize(queued_);
  idle_ = false;
  inbox_.submissions.emplace_back(id, std::move(submission));
  return id;
}

absl::Status BatchLoop::QueueFullError() const {
  return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                            "the queue is full: the limit is ",
                            options_.max_queue, " waiting requests")),
                        RetryDelay());
}

// When the queue will have moved on by one: each running request frees its
// place after the mean time of service.
absl::Duration BatchLoop::RetryDelay() const {
  const int64_t running = std::max<int64_t>(1, stats_.running_requests);
  const absl::Duration delay = mean_service_ / running;
  return std::clamp(delay, kMinRetryDelay, kMaxRetryDelay);
}

void BatchLoop::Cancel(RequestId id) {
  const absl::MutexLock lock(&mutex_);
  inbox_.cancellations.push_back(id);
}

void BatchLoop::BeginDrain() {
  const absl::MutexLock lock(&mutex_);
  draining_ = true;
  inbox_.wake = true;
}

void BatchLoop::CancelAll() {
  const absl::MutexLock lock(&mutex_);
  inbox_.cancel_all = true;
}

bool BatchLoop::WaitUntilIdle(absl::Duration timeout) {
  const absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&idle_), timeout);
}

void BatchLoop::Wake() {
  const absl::MutexLock lock(&mutex_);
  inbox_.wake = true;
}

BatchStats BatchLoop::stats() const {
  const absl::MutexLock lock(&mutex_);
  return stats_;
}

bool BatchLoop::RunOnce() {
  const absl::Time now = options_.batcher.now();
  TakeInbox(now);
  batcher_.Prepare(now);
  PublishStats();  // a step may be long, and the queue has moved on
  const bool stepped = batcher_.Step(now);
  PublishStats();
  return stepped;
}

void BatchLoop::TakeInbox(absl::Time now) {
  Inbox inbox;
  bool draining = false;
  absl::Status queue_full;
  {
    const absl::MutexLock lock(&mutex_);
    std::swap(inbox, inbox_);
    draining = draining_;
    if (!inbox.displaced.empty()) queue_full = QueueFullError();
  }
  for (auto& [id, submission] : inbox.submissions) {
    batcher_.Add(id, std::move(submission), now);
  }
  for (const RequestId id : inbox.cancellations) {
    batcher_.End(id, absl::CancelledError("the client cancelled"), now);
  }
  for (const RequestId id : inbox.displaced) {
    batcher_.EndIfQueued(id, queue_full, now);
  }
  if (inbox.cancel_all) {
    batcher_.EndAll(DrainingError(), now);
  } else if (draining) {
    batcher_.EndQueued(DrainingError(), now);
  }
}

void BatchLoop::PublishStats() {
  BatchStats stats = batcher_.Stats();
  std::vector<QueuedRequest> queued = batcher_.Queued();
  const absl::MutexLock lock(&mutex_);
  for (const auto& [id, submission] : inbox_.submissions) {
    queued.push_back({.id = static_cast<uint64_t>(id),
                      .priority = submission.request.priority,
                      .tenant = submission.request.tenant});
  }
  for (const RequestId id : inbox_.displaced) {
    std::erase_if(queued, [id](const QueuedRequest& request) {
      return request.id == static_cast<uint64_t>(id);
    });
  }
  queued_ = std::move(queued);
  stats.rejected_requests = stats_.rejected_requests;
  stats.queued_requests = std::ssize(queued_);
  stats_ = stats;
  mean_service_ = batcher_.mean_service();
  idle_ = batcher_.empty() && inbox_.submissions.empty();
}

}  // namespace headrace
