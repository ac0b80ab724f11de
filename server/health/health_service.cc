#include "server/health/health_service.h"

#include <utility>

namespace headrace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call: writes the newest status, one write at a time; what changed
// and changed back in between is not told.
class HealthWatcher final
    : public grpc::ServerWriteReactor<HealthCheckResponse>,
      public std::enable_shared_from_this<HealthWatcher> {
 public:
  explicit HealthWatcher(std::string name) : name_(std::move(name)) {}

  // Keeps itself alive from now to OnDone().
  void Begin(HealthService::Status status) ABSL_LOCKS_EXCLUDED(mutex_) {
    self_ = shared_from_this();
    Tell(status);
  }

  void Tell(HealthService::Status status) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    status_ = status;
    WriteNewest();
  }

  const std::string& name() const { return name_; }

  void OnWriteDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (ok) {
      WriteNewest();
    } else {
      FinishOnce();
    }
  }

  void OnCancel() override {
    const absl::MutexLock lock(&mutex_);
    FinishOnce();
  }

  void OnDone() override { self_.reset(); }

 private:
  void WriteNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_ || status_ == written_) return;
    writing_ = true;
    written_ = status_;
    response_.set_status(status_);
    StartWrite(&response_);
  }

  void FinishOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    Finish(grpc::Status::CANCELLED);
  }

  const std::string name_;
  std::shared_ptr<HealthWatcher> self_;
  absl::Mutex mutex_;
  HealthService::Status status_ ABSL_GUARDED_BY(mutex_) =
      HealthCheckResponse::UNKNOWN;
  HealthService::Status written_ ABSL_GUARDED_BY(mutex_) =
      HealthCheckResponse::UNKNOWN;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  HealthCheckResponse response_;  // of the write under way
};

HealthService::HealthService(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    statuses_[name] = HealthCheckResponse::NOT_SERVING;
  }
}

std::optional<HealthService::Status> HealthService::StatusOf(
    const std::string& name) const {
  const auto found = statuses_.find(name);
  if (found == statuses_.end()) return std::nullopt;
  return found->second;
}

void HealthService::Set(const std::string& name, bool serving) {
  const absl::MutexLock lock(&mutex_);
  const Status status =
      serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  statuses_[name] = status;
  std::erase_if(watchers_,
                [](const auto& watcher) { return watcher.expired(); });
  for (const std::weak_ptr<HealthWatcher>& weak : watchers_) {
    const std::shared_ptr<HealthWatcher> watcher = weak.lock();
    if (watcher != nullptr && watcher->name() == name) watcher->Tell(status);
  }
}

grpc::ServerUnaryReactor* HealthService::Check(
    grpc::CallbackServerContext* call, const HealthCheckRequest* request,
    HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  const absl::MutexLock lock(&mutex_);
  const std::optional<Status> status = StatusOf(request->service());
  if (status.has_value()) {
    response->set_status(*status);
    reactor->Finish(grpc::Status::OK);
  } else {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                 "no service of this name is served here"));
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* /*call*/, const HealthCheckRequest* request) {
  auto watcher = std::make_shared<HealthWatcher>(request->service());
  const absl::MutexLock lock(&mutex_);
  std::erase_if(watchers_, [](const auto& other) { return other.expired(); });
  watchers_.push_back(watcher);
  watcher->Begin(StatusOf(request->service())
                     .value_or(HealthCheckResponse::SERVICE_UNKNOWN));
  return watcher.get();
}

}  // namespace headrace
