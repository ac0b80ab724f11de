// The server: ports, services, health, metrics, and the batch loop behind them.
#ifndef HEADRACE_SERVER_SERVER_H_
#define HEADRACE_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "grpcpp/server.h"
#include "server/batching/batch_loop.h"
#include "server/health/health_service.h"
#include "server/metrics/metrics.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/services.h"
#include "server/rpc/unknown_methods.h"
#include "server/server_options.h"
#include "server/vectors/vector_store.h"

namespace headrace {

// Open() → Serve() → SetReady() → Drain(). Thread-compatible, but for Hurry().
class Server {
 public:
  // Opens the ports; health answers NOT_SERVING, everything else UNAVAILABLE.
  // Errors: INVALID_ARGUMENT for options; UNAVAILABLE for a port that is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Open(ServerOptions options);
  // Drains without grace.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The ports that were opened, as clients dial them.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Where /metrics is; empty without.
  const std::string& metrics_address() const { return metrics_->address(); }

  // Answers calls with this engine.
  void Serve(std::unique_ptr<Engine> engine);
  // Health says SERVING from now on.
  void SetReady();
  const Engine& engine() const { return *engine_; }
  BatchStats stats() const { return loop_->stats(); }

  // NOT_SERVING first, while everything goes on for `notice`; then running
  // requests may finish within `grace`, the rest is cancelled, and the ports
  // close.
  void Drain(absl::Duration notice, absl::Duration grace);
  // Ends the grace of a Drain() on another thread. Thread-safe.
  void Hurry();

 private:
  explicit Server(ServerOptions options);

  absl::Status Listen();

  // Health follows the loop: a step that hangs is not serving.
  void WatchLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // What calls took and no longer need.
  void GiveMemoryBack(OpenCalls::Activity calls);
  void UpdateHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ServerOptions options_;
  std::vector<std::string> addresses_;

  // In order of dependence: gRPC's server, which calls all of them, is last.
  std::unique_ptr<Metrics> metrics_;
  HealthService health_;
  RpcContext rpc_;
  InferenceService inference_service_{&rpc_};
  ModelService model_service_{&rpc_};
  VectorService vector_service_{&rpc_};
  UnknownMethods unknown_methods_;
  std::unique_ptr<Engine> engine_;
  VectorStore vectors_;
  ServedModel model_;
  std::unique_ptr<BatchLoop> loop_;
  std::unique_ptr<grpc::Server> grpc_server_;

  absl::Mutex mutex_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool hurried_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

// "headrace 0.1.0"
std::string BuildName();

}  // namespace headrace

#endif  // HEADRACE_SERVER_SERVER_H_
