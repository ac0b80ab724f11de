#include "client/cli/bench_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace::cli {
namespace {

constexpr int kMaxConcurrency = 4096;

// SplitMix64 (Steele, Lea and Flood 2014): the same arrivals on every machine.
uint64_t NextRandom(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

// Nearest rank; null where there is no value.
nlohmann::ordered_json Percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  nlohmann::ordered_json percentiles;
  for (const auto& [name, quantile] :
       {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p99", 0.99),
        std::pair("max", 1.0)}) {
    if (values.empty()) {
      percentiles[name] = nullptr;
      continue;
    }
    const double rank = quantile * static_cast<double>(values.size() - 1);
    percentiles[name] = values[static_cast<size_t>(std::lround(rank))];
  }
  return percentiles;
}

struct LatencyLine {
  const char* label;
  const char* key;
};
constexpr LatencyLine kLatencies[] = {
    {"time to first token", "time_to_first_token_seconds"},
    {"time per token", "time_per_output_token_seconds"},
    {"between tokens", "inter_token_latency_seconds"},
    {"whole request", "request_latency_seconds"},
};

}  // namespace

absl::StatusOr<std::vector<BenchLoad>> BenchLoads(const BenchOptions& options) {
  std::vector<BenchLoad> loads;
  for (const std::string& text : options.concurrency) {
    int concurrency = 0;
    if (!absl::SimpleAtoi(text, &concurrency) || concurrency < 1 ||
        concurrency > kMaxConcurrency) {
      return absl::InvalidArgumentError(
          absl::StrCat("--concurrency must be numbers from 1 to ",
                       kMaxConcurrency, "; has \"", text, "\""));
    }
    loads.push_back({.concurrency = concurrency});
  }
  for (const std::string& text : options.arrival_rates) {
    double rate = 0;
    if (!absl::SimpleAtod(text, &rate) || !(rate > 0) || !std::isfinite(rate)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--arrival_rates must be numbers above 0; has \"", text, "\""));
    }
    loads.push_back({.arrival_rate = rate});
  }
  if (loads.empty()) loads.push_back({.concurrency = 1});
  return loads;
}

std::vector<double> PoissonArrivals(int count, double rate, uint64_t seed) {
  std::vector<double> arrivals;
  arrivals.reserve(static_cast<size_t>(count));
  double at = 0;
  for (int i = 0; i < count; ++i) {
    // Uniform in (0, 1], 53 bits.
    const double uniform =
        std::ldexp(static_cast<double>((NextRandom(seed) >> 11) + 1), -53);
    at -= std::log(uniform) / rate;
    arrivals.push_back(at);
  }
  return arrivals;
}

nlohmann::ordered_json BenchReport(const std::vector<BenchSample>& samples,
                                   double seconds, const BenchLoad& load,
                                   const BenchOptions& options) {
  std::vector<double> first;
  std::vector<double> per_token;
  std::vector<double> between;
  std::vector<double> whole;
  size_t tokens = 0;
  for (const BenchSample& sample : samples) {
    const std::vector<double>& times = sample.token_times;
    tokens += times.size();
    whole.push_back(sample.end);
    if (!times.empty()) first.push_back(times.front());
    for (size_t i = 1; i < times.size(); ++i) {
      between.push_back(times[i] - times[i - 1]);
    }
    if (times.size() > 1) {
      per_token.push_back((times.back() - times.front()) /
                          static_cast<double>(times.size() - 1));
    }
  }
  nlohmann::ordered_json report;
  if (load.open()) {
    report["arrival_rate"] = load.arrival_rate;
    report["arrival_seed"] = options.arrival_seed;
  } else {
    report["concurrency"] = load.concurrency;
  }
  report["requests"] = options.requests;
  report["prompt_tokens"] = options.prompt_tokens;
  report["time_to_first_token_seconds"] = Percentiles(std::move(first));
  report["time_per_output_token_seconds"] = Percentiles(std::move(per_token));
  report["inter_token_latency_seconds"] = Percentiles(std::move(between));
  report["request_latency_seconds"] = Percentiles(std::move(whole));
  report["output_tokens_per_second"] = static_cast<double>(tokens) / seconds;
  report["requests_per_second"] = static_cast<double>(samples.size()) / seconds;
  return report;
}

std::string FormatBenchReport(const nlohmann::ordered_json& report) {
  std::string text =
      report.contains("arrival_rate")
          ? absl::StrFormat("%g requests/s arrive\n",
                            report.at("arrival_rate").get<double>())
          : absl::StrFormat("%d at a time\n",
                            report.at("concurrency").get<int>());
  for (const LatencyLine& line : kLatencies) {
    absl::StrAppendFormat(&text, "  %-20s", line.label);
    for (const auto& [name, value] : report.at(line.key).items()) {
      if (value.is_null()) {
        absl::StrAppendFormat(&text, "  %s        - ms", name);
      } else {
        absl::StrAppendFormat(&text, "  %s %8.2f ms", name,
                              1e3 * value.get<double>());
      }
    }
    text += '\n';
  }
  absl::StrAppendFormat(
      &text, "  throughput            %.2f tokens/s, %.2f requests/s\n",
      report.at("output_tokens_per_second").get<double>(),
      report.at("requests_per_second").get<double>());
  return text;
}

}  // namespace headrace::cli
