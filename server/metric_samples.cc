#include "server/metric_samples.h"

#include <cstdint>
#include <string>

namespace headrace {

namespace {

using Type = MetricSample::Type;

double UsedShare(const KvCacheStats& kv_cache) {
  if (kv_cache.total_blocks == 0) return 0;
  return static_cast<double>(kv_cache.used_blocks) /
         static_cast<double>(kv_cache.total_blocks);
}

}  // namespace

std::vector<MetricSample> ToSamples(const BatchStats& stats) {
  std::vector<MetricSample> samples;
  const auto add = [&samples](Type type, const char* name, const char* help,
                              auto value) {
    samples.push_back({type, name, help, static_cast<double>(value)});
  };
  const KvCacheStats& kv = stats.kv_cache;
  add(Type::kGauge, "num_requests_waiting", "Requests that wait for admission.",
      stats.queued_requests);
  add(Type::kGauge, "num_requests_running", "Requests that were admitted.",
      stats.running_requests);
  add(Type::kGauge, "num_sequences_running", "Open sequences.",
      stats.running_sequences);
  add(Type::kGauge, "num_sequences_paused",
      "Sequences that wait for their reader.", stats.paused_sequences);
  add(Type::kGauge, "kv_cache_usage_perc",
      "Reserved share of the KV cache; 1 is all of it.", UsedShare(kv));
  add(Type::kGauge, "kv_cache_blocks_total", "Blocks of the KV cache.",
      kv.total_blocks);
  add(Type::kGauge, "kv_cache_blocks_used",
      "Blocks that open sequences reserve.", kv.used_blocks);
  add(Type::kGauge, "kv_cache_blocks_cached",
      "Blocks that hold a reusable prefix.", kv.cached_blocks);
  add(Type::kGauge, "capture_ring_bytes",
      "Captured rows that wait for their readers.", stats.ring_bytes);
  add(Type::kCounter, "prefix_cache_queries_total",
      "Prompt tokens looked up in the prefix cache.", kv.prefix_queries);
  add(Type::kCounter, "prefix_cache_hits_total",
      "Prompt tokens found in the prefix cache.", kv.prefix_hits);
  add(Type::kCounter, "steps_total", "Steps of the engine.", stats.steps);
  add(Type::kCounter, "prompt_tokens_total", "Prompt tokens computed.",
      stats.prompt_tokens_computed);
  add(Type::kCounter, "generation_tokens_total", "Tokens sampled.",
      stats.generated_tokens);
  add(Type::kCounter, "captured_rows_total",
      "Rows of hooks captured, by ended requests.", stats.captured_rows);
  add(Type::kCounter, "dropped_rows_total",
      "Rows left out for slow readers, by ended requests.",
      stats.dropped_rows);
  add(Type::kCounter, "rejected_requests_total",
      "Requests refused: queue full, or draining.", stats.rejected_requests);
  add(Type::kCounter, "reader_stall_seconds_total",
      "Time that ended requests waited for their readers.",
      absl::ToDoubleSeconds(stats.stalled));
  return samples;
}

void ObserveRequest(const RequestRecord& record, Metrics& metrics) {
  const auto observe = [&metrics](RequestHistogram histogram,
                                  absl::Duration duration) {
    metrics.Observe(histogram, absl::ToDoubleSeconds(duration));
  };
  metrics.CountRequest(absl::StatusCodeToString(record.code));
  if (record.code != absl::StatusCode::kOk) return;
  observe(RequestHistogram::kEndToEndLatency, record.total);
  observe(RequestHistogram::kQueueTime, record.timings.queue);
  observe(RequestHistogram::kPrefillTime, record.timings.prefill);
  observe(RequestHistogram::kDecodeTime, record.timings.decode);
  if (record.generated_tokens == 0) return;
  observe(RequestHistogram::kTimeToFirstToken, record.time_to_first_token);
  if (record.generated_tokens > 1) {
    observe(RequestHistogram::kTimePerOutputToken,
            record.timings.decode / (record.generated_tokens - 1));
  }
}

}  // namespace headrace
