// What every RPC needs: the served model, once it is loaded, and the threads
// that do the work.
#ifndef HEADRACE_SERVER_RPC_RPC_CONTEXT_H_
#define HEADRACE_SERVER_RPC_RPC_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "server/batching/batch_loop.h"
#include "server/convert/serving_context.h"
#include "server/rpc/open_calls.h"
#include "server/rpc/worker_pool.h"

namespace headrace {

// A loaded model and the loop that runs it. Thread-safe; outlives every call.
struct ServedModel {
  ServingContext context;
  BatchLoop* loop = nullptr;
};

// Thread-safe. Outlives every call.
class RpcContext {
 public:
  // `run_id` distinguishes the request ids of this run from another's.
  // `max_request_bytes`: see OpenCalls.
  RpcContext(int num_converters, std::string run_id, int64_t max_request_bytes)
      : run_id_(std::move(run_id)),
        open_calls_(max_request_bytes),
        converters_(num_converters, kMaxConversions) {}

  // Calls are answered with UNAVAILABLE until now. `model` outlives this.
  void Serve(const ServedModel* model) { model_ = model; }

  // Errors: UNAVAILABLE while the model is loading.
  absl::StatusOr<const ServedModel*> model() const;

  OpenCalls& open_calls() { return open_calls_; }
  // Checks and encodes requests; a full queue is a full server.
  WorkerPool& converters() { return converters_; }
  // Writes events to streams. One task at the most per stream and input.
  WorkerPool& writers() { return writers_; }

  // "8c1f03-17"
  std::string NameOf(RequestId id) const;

 private:
  static constexpr size_t kMaxConversions = 1024;

  const std::string run_id_;
  OpenCalls open_calls_;
  std::atomic<const ServedModel*> model_{nullptr};
  WorkerPool converters_;
  WorkerPool writers_{1, std::numeric_limits<size_t>::max()};
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_RPC_CONTEXT_H_
