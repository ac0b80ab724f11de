// grpc.health.v1 for our own names: Check and Watch.
//
// gRPC 1.51's built-in service says SERVING for "" from its construction on,
// before anything is loaded; this one begins with NOT_SERVING.
#ifndef HEADRACE_SERVER_HEALTH_HEALTH_SERVICE_H_
#define HEADRACE_SERVER_HEALTH_HEALTH_SERVICE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace headrace {

class HealthWatcher;

// Thread-safe. Outlives every call.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // The names that exist, all NOT_SERVING.
  explicit HealthService(const std::vector<std::string>& names);

  // Tells every watcher of `name`, which exists.
  void Set(const std::string& name, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::ServerUnaryReactor* Check(
      grpc::CallbackServerContext* call,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* call,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  friend class HealthWatcher;

  std::optional<Status> StatusOf(const std::string& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, Status> statuses_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<HealthWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_HEALTH_HEALTH_SERVICE_H_
