// headrace bench: time to first token, time per token and throughput of a
// server under a number of clients at once.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/cli/request_builder.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {
namespace {

constexpr uint32_t kDefaultMaxTokens = 64;

// Seconds, of one request.
struct Sample {
  double first_token = 0;
  double per_token = 0;  // mean of those after the first
  int64_t tokens = 0;
};

absl::StatusOr<Sample> Measure(client::Client& client,
                               const v1::GenerateRequest& request) {
  const absl::Time start = absl::Now();
  absl::Time first;
  absl::Time last;
  Sample sample;
  const auto stream = client.Generate(request);
  while (std::optional<v1::GenerateResponse> event = stream->Next()) {
    if (!event->has_token()) continue;
    last = absl::Now();
    if (sample.tokens++ == 0) first = last;
  }
  if (absl::Status status = stream->Finish(); !status.ok()) return status;
  sample.first_token = absl::ToDoubleSeconds(first - start);
  if (sample.tokens > 1) {
    sample.per_token = absl::ToDoubleSeconds(last - first) /
                       static_cast<double>(sample.tokens - 1);
  }
  return sample;
}

// Runs `requests` requests, `concurrency` at a time, each with a prompt of its
// own so that no prefix is shared.
absl::StatusOr<std::vector<Sample>> RunAll(client::Client& client,
                                           const CliOptions& options,
                                           const v1::GenerateRequest& base,
                                           uint32_t vocab_size) {
  std::atomic<int> next{0};
  std::mutex mutex;
  std::vector<Sample> samples;
  absl::Status failure;
  const auto work = [&] {
    for (int i = next++; i < options.bench.requests; i = next++) {
      v1::GenerateRequest request = base;
      for (int k = 0; k < options.bench.prompt_tokens; ++k) {
        const uint64_t mixed =
            (static_cast<uint64_t>(i) * 1000003 + static_cast<uint64_t>(k)) *
            0x9E3779B97F4A7C15u;
        request.mutable_tokens()->add_ids(
            static_cast<uint32_t>((mixed >> 33) % vocab_size));
      }
      absl::StatusOr<Sample> sample = Measure(client, request);
      const std::scoped_lock lock(mutex);
      if (sample.ok()) {
        samples.push_back(*sample);
      } else {
        failure.Update(sample.status());
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(options.bench.concurrency));
  for (int t = 0; t < options.bench.concurrency; ++t) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.ok()) return failure;
  return samples;
}

nlohmann::ordered_json Percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    const double rank = q * static_cast<double>(values.size() - 1);
    return values[static_cast<size_t>(std::lround(rank))];
  };
  return {{"p50", at(0.5)}, {"p90", at(0.9)}, {"p99", at(0.99)}};
}

nlohmann::ordered_json Report(const std::vector<Sample>& samples,
                              double seconds, const CliOptions& options) {
  std::vector<double> first;
  std::vector<double> per_token;
  int64_t tokens = 0;
  for (const Sample& sample : samples) {
    first.push_back(sample.first_token);
    per_token.push_back(sample.per_token);
    tokens += sample.tokens;
  }
  return {
      {"concurrency", options.bench.concurrency},
      {"requests", options.bench.requests},
      {"prompt_tokens", options.bench.prompt_tokens},
      {"time_to_first_token_seconds", Percentiles(first)},
      {"time_per_output_token_seconds", Percentiles(per_token)},
      {"output_tokens_per_second", static_cast<double>(tokens) / seconds},
      {"requests_per_second", static_cast<double>(samples.size()) / seconds}};
}

void Print(const nlohmann::ordered_json& report) {
  const auto line = [&](const char* name, const char* key) {
    const auto& p = report.at(key);
    std::cout << absl::StrFormat(
        "%-20s p50 %8.2f ms   p90 %8.2f ms   p99 %8.2f ms\n", name,
        1e3 * p.at("p50").get<double>(), 1e3 * p.at("p90").get<double>(),
        1e3 * p.at("p99").get<double>());
  };
  line("time to first token", "time_to_first_token_seconds");
  line("time per token", "time_per_output_token_seconds");
  std::cout << absl::StrFormat(
      "throughput           %.2f tokens/s, %.2f requests/s\n",
      report.at("output_tokens_per_second").get<double>(),
      report.at("requests_per_second").get<double>());
}

}  // namespace

absl::Status RunBench(client::Client& client, const CliOptions& options) {
  if (options.bench.concurrency < 1 || options.bench.requests < 1 ||
      options.bench.prompt_tokens < 1) {
    return absl::InvalidArgumentError(
        "--concurrency, --requests and --prompt_tokens are at least 1");
  }
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  v1::StopConditions& stop = *request->mutable_stop();
  if (!stop.has_max_tokens()) stop.set_max_tokens(kDefaultMaxTokens);
  stop.set_ignore_eos(true);
  const auto model = client.GetModel(options.model);
  if (!model.ok()) return model.status();
  const uint32_t vocab_size = model->tokenizer_vocab_size() > 0
                                  ? model->tokenizer_vocab_size()
                                  : model->vocab_size();
  const absl::Time start = absl::Now();
  const auto samples = RunAll(client, options, *request, vocab_size);
  if (!samples.ok()) return samples.status();
  const nlohmann::ordered_json report =
      Report(*samples, absl::ToDoubleSeconds(absl::Now() - start), options);
  if (options.json) {
    std::cout << report.dump() << "\n" << std::flush;
  } else {
    Print(report);
  }
  return absl::OkStatus();
}

}  // namespace headrace::cli
