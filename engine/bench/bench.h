// Measures the engine alone, without a network: prefill and decode tokens per
// second, as llama-bench measures them.
#ifndef HEADRACE_ENGINE_BENCH_BENCH_H_
#define HEADRACE_ENGINE_BENCH_BENCH_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "nlohmann/json.hpp"

namespace headrace {

struct BenchOptions {
  int64_t prompt = 512;    // tokens of one prefill; 0: no prefill run
  int64_t generate = 128;  // tokens of one decode run; 0: none
  int64_t depth = 0;       // tokens in the context before either begins
  int64_t batch = 1;       // sequences that decode together
  int64_t repeat = 5;      // runs of each; median, min and max are reported
};

// The object that `headrace-bench --json` prints, without load_seconds and
// peak_rss_bytes. `now` is the clock; `on_run(done, of)` reports progress.
//
// Errors: INVALID_ARGUMENT for sizes below their range; RESOURCE_EXHAUSTED
// when the KV cache is too small for them.
absl::StatusOr<nlohmann::ordered_json> RunBench(
    Engine& engine, const BenchOptions& options,
    const std::function<absl::Time()>& now,
    const std::function<void(int64_t, int64_t)>& on_run);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BENCH_BENCH_H_
