// What conversions need to know of the server: the model and a few limits.
#ifndef HEADRACE_SERVER_CONVERT_SERVING_CONTEXT_H_
#define HEADRACE_SERVER_CONVERT_SERVING_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "server/vectors/vector_store.h"

namespace headrace {

// Immutable after start, thread-safe: only the engine's thread-safe parts are
// used, and the store is.
struct ServingContext {
  const Engine* engine = nullptr;
  int64_t kv_cache_rows = 0;          // that the KV cache holds altogether
  int64_t max_ring_bytes = 32 << 20;  // of captured rows, per request
  std::function<uint64_t()> random_seed;
  std::string build;  // "headrace 0.1.0"
  VectorStore* vectors = nullptr;

  int64_t vocab_size() const { return engine->model().config.vocab_size; }
};

// Errors: NOT_FOUND (with ResourceInfo) unless `name` is empty or the model's.
absl::Status CheckModelName(const std::string& name,
                            const ServingContext& context);

// A unary reply may not pass what clients accept by default.
inline constexpr int64_t kMaxUnaryReplyBytes = 4 << 20;

// Errors: RESOURCE_EXHAUSTED when `bytes` passes it, with `advice`.
absl::Status CheckReplySize(int64_t bytes, const std::string& advice);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_SERVING_CONTEXT_H_
