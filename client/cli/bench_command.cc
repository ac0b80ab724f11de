// headrace bench: time to first token, time between tokens and throughput of a
// server, under a number of clients at once or requests that arrive at a rate.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/bench_load.h"
#include "client/cli/command.h"
#include "client/cli/request_builder.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {
namespace {

constexpr uint32_t kDefaultMaxTokens = 64;

absl::StatusOr<BenchSample> Measure(client::Client& client,
                                    const v1::GenerateRequest& request,
                                    absl::Time due) {
  const auto since_due = [due] {
    return absl::ToDoubleSeconds(absl::Now() - due);
  };
  BenchSample sample;
  const auto stream = client.Generate(request);
  while (std::optional<v1::GenerateResponse> event = stream->Next()) {
    if (event->has_token()) sample.token_times.push_back(since_due());
  }
  if (absl::Status status = stream->Finish(); !status.ok()) return status;
  sample.end = since_due();
  return sample;
}

// The runs of one command.
class Bench {
 public:
  Bench(client::Client& client, const CliOptions& options,
        v1::GenerateRequest base, uint32_t vocab_size)
      : client_(client),
        options_(options.bench),
        base_(std::move(base)),
        vocab_size_(vocab_size) {}

  absl::StatusOr<nlohmann::ordered_json> Run(const BenchLoad& load) {
    samples_.clear();
    const absl::Time start = absl::Now();
    if (load.open()) {
      RunOpen(load, start);
    } else {
      RunClosed(load);
    }
    requests_before_ += static_cast<uint64_t>(options_.requests);
    if (!failure_.ok()) return failure_;
    return BenchReport(samples_, absl::ToDoubleSeconds(absl::Now() - start),
                       load, options_);
  }

 private:
  void RunClosed(const BenchLoad& load) {
    std::atomic<int> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < std::min(load.concurrency, options_.requests); ++t) {
      threads.emplace_back([&] {
        for (int i = next++; i < options_.requests; i = next++) {
          Ask(i, absl::Now());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void RunOpen(const BenchLoad& load, absl::Time start) {
    const std::vector<double> arrivals = PoissonArrivals(
        options_.requests, load.arrival_rate, options_.arrival_seed);
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.requests; ++i) {
      const absl::Time due =
          start + absl::Seconds(arrivals[static_cast<size_t>(i)]);
      absl::SleepFor(due - absl::Now());
      threads.emplace_back([this, i, due] { Ask(i, due); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void Ask(int index, absl::Time due) {
    absl::StatusOr<BenchSample> sample = Measure(client_, Request(index), due);
    const std::scoped_lock lock(mutex_);
    if (sample.ok()) {
      samples_.push_back(*std::move(sample));
    } else {
      failure_.Update(sample.status());
    }
  }

  // Each has a prompt of its own, so that no prefix is shared.
  v1::GenerateRequest Request(int index) const {
    v1::GenerateRequest request = base_;
    const uint64_t number = requests_before_ + static_cast<uint64_t>(index);
    for (int k = 0; k < options_.prompt_tokens; ++k) {
      const uint64_t mixed =
          (number * 1000003 + static_cast<uint64_t>(k)) * 0x9E3779B97F4A7C15u;
      request.mutable_tokens()->add_ids(
          static_cast<uint32_t>((mixed >> 33) % vocab_size_));
    }
    return request;
  }

  client::Client& client_;
  const BenchOptions options_;
  const v1::GenerateRequest base_;
  const uint32_t vocab_size_;
  // A run of its own, too: an earlier one may have left its prompts in the
  // cache.
  uint64_t requests_before_ = std::random_device()();
  std::mutex mutex_;
  std::vector<BenchSample> samples_;
  absl::Status failure_;
};

}  // namespace

absl::Status RunBench(client::Client& client, const CliOptions& options) {
  if (options.bench.requests < 1 || options.bench.prompt_tokens < 1) {
    return absl::InvalidArgumentError(
        "--requests and --prompt_tokens are at least 1");
  }
  const absl::StatusOr<std::vector<BenchLoad>> loads =
      BenchLoads(options.bench);
  if (!loads.ok()) return loads.status();
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
  Bench bench(client, options, *std::move(request), vocab_size);
  nlohmann::ordered_json reports = nlohmann::ordered_json::array();
  for (const BenchLoad& load : *loads) {
    absl::StatusOr<nlohmann::ordered_json> report = bench.Run(load);
    if (!report.ok()) return report.status();
    if (!options.json) std::cout << FormatBenchReport(*report) << std::flush;
    reports.push_back(*std::move(report));
  }
  if (options.json) {
    // One run is one object, several are a list.
    std::cout << (reports.size() == 1 ? reports[0] : reports).dump() << "\n"
              << std::flush;
  }
  return absl::OkStatus();
}

}  // namespace headrace::cli
