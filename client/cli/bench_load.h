// What `headrace bench` asks of a server and what came of it: when requests
// start, and the figures of one run. No connection, no clock.
#ifndef HEADRACE_CLIENT_CLI_BENCH_LOAD_H_
#define HEADRACE_CLIENT_CLI_BENCH_LOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/cli_options.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {

// One run. Closed loop: so many clients, each of which asks again when it has
// its answer. Open loop: requests arrive at a rate, whether the server keeps up
// or not.
struct BenchLoad {
  int concurrency = 0;      // of a closed loop
  double arrival_rate = 0;  // of an open one: requests per second
  bool open() const { return arrival_rate > 0; }
};

// The runs that the flags ask for: one per concurrency, then one per rate.
// Errors: INVALID_ARGUMENT naming the flag.
absl::StatusOr<std::vector<BenchLoad>> BenchLoads(const BenchOptions& options);

// Seconds from the start of a run at which `count` requests arrive: a Poisson
// process of `rate` per second, the same for the same seed.
std::vector<double> PoissonArrivals(int count, double rate, uint64_t seed);

// One request. Times are seconds from when it was due: a request that is sent
// late, because the client is busy, has waited.
struct BenchSample {
  std::vector<double> token_times;
  double end = 0;
};

// Latencies by percentile, in seconds, and throughput over `seconds`.
nlohmann::ordered_json BenchReport(const std::vector<BenchSample>& samples,
                                   double seconds, const BenchLoad& load,
                                   const BenchOptions& options);
// A report for people to read.
std::string FormatBenchReport(const nlohmann::ordered_json& report);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_BENCH_LOAD_H_
