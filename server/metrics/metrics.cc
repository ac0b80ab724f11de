#include "server/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace headrace {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// One line per number of a snapshot.
template <typename Stats>
struct SnapshotMetric {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const Stats&);
};

double KvUsage(const BatchStats& stats) {
  return stats.kv_cache.total_blocks == 0
             ? 0
             : static_cast<double>(stats.kv_cache.used_blocks) /
                   static_cast<double>(stats.kv_cache.total_blocks);
}

constexpr SnapshotMetric<BatchStats> kBatch[] = {
    {"headrace_num_requests_waiting", "Requests that wait for admission.",
     MetricType::Gauge,
     [](const BatchStats& s) {
       return static_cast<double>(s.queued_requests);
     }},
    {"headrace_num_requests_running", "Requests that run.", MetricType::Gauge,
     [](const BatchStats& s) {
       return static_cast<double>(s.running_requests);
     }},
    {"headrace_num_sequences_paused", "Sequences that wait for their reader.",
     MetricType::Gauge,
     [](const BatchStats& s) {
       return static_cast<double>(s.paused_sequences);
     }},
    {"headrace_num_sequences_suspended",
     "Sequences that gave way to a higher priority.", MetricType::Gauge,
     [](const BatchStats& s) {
       return static_cast<double>(s.suspended_sequences);
     }},
    {"headrace_kv_cache_usage_perc", "Share of KV blocks that are reserved.",
     MetricType::Gauge, KvUsage},
    {"headrace_kv_blocks_used", "KV blocks that are reserved.",
     MetricType::Gauge,
     [](const BatchStats& s) {
       return static_cast<double>(s.kv_cache.used_blocks);
     }},
    {"headrace_capture_buffer_bytes", "Captured rows that wait for readers.",
     MetricType::Gauge,
     [](const BatchStats& s) { return static_cast<double>(s.ring_bytes); }},
    {"headrace_steps_total", "Engine steps.", MetricType::Counter,
     [](const BatchStats& s) { return static_cast<double>(s.steps); }},
    {"headrace_prompt_tokens_total", "Prompt rows computed.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.prompt_tokens_computed);
     }},
    {"headrace_generation_tokens_total", "Tokens generated.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.generated_tokens);
     }},
    {"headrace_prefix_cache_queries_total", "Prompt rows looked up.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.kv_cache.prefix_queries);
     }},
    {"headrace_prefix_cache_hits_total", "Prompt rows found.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.kv_cache.prefix_hits);
     }},
    {"headrace_drafted_tokens_total", "Tokens guessed by prompt lookup.",
     MetricType::Counter,
     [](const BatchStats& s) { return static_cast<double>(s.drafted_tokens); }},
    {"headrace_accepted_tokens_total", "Guessed tokens that came.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.accepted_tokens);
     }},
    {"headrace_suspensions_total",
     "Sequences suspended for one of a higher priority.", MetricType::Counter,
     [](const BatchStats& s) { return static_cast<double>(s.suspensions); }},
    {"headrace_recomputed_rows_total", "Rows computed again after suspensions.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.recomputed_rows);
     }},
    {"headrace_captured_rows_total", "Rows of activations taken.",
     MetricType::Counter,
     [](const BatchStats& s) { return static_cast<double>(s.captured_rows); }},
    {"headrace_requests_rejected_total", "Requests refused: full or draining.",
     MetricType::Counter,
     [](const BatchStats& s) {
       return static_cast<double>(s.rejected_requests);
     }},
    {"headrace_reader_stall_seconds_total",
     "Time that sequences were paused by their readers.", MetricType::Counter,
     [](const BatchStats& s) { return absl::ToDoubleSeconds(s.stalled); }},
};

constexpr SnapshotMetric<StoreStats> kStore[] = {
    {"headrace_stored_vectors", "Vectors that clients put.", MetricType::Gauge,
     [](const StoreStats& s) { return static_cast<double>(s.vectors); }},
    {"headrace_stored_vector_bytes", "What they take.", MetricType::Gauge,
     [](const StoreStats& s) { return static_cast<double>(s.vector_bytes); }},
    {"headrace_kept_rows_handles", "Requests whose rows are kept.",
     MetricType::Gauge,
     [](const StoreStats& s) { return static_cast<double>(s.kept_rows); }},
    {"headrace_kept_rows_bytes", "What those rows take.", MetricType::Gauge,
     [](const StoreStats& s) {
       return static_cast<double>(s.kept_rows_bytes);
     }},
    {"headrace_vector_store_bytes",
     "Vectors and kept rows, reserved and in use too.", MetricType::Gauge,
     [](const StoreStats& s) { return static_cast<double>(s.bytes_used); }},
    {"headrace_vector_store_limit_bytes", "What they may take.",
     MetricType::Gauge,
     [](const StoreStats& s) { return static_cast<double>(s.bytes_limit); }},
    {"headrace_vector_store_refusals_total",
     "Vectors and kept rows refused for want of room.", MetricType::Counter,
     [](const StoreStats& s) { return static_cast<double>(s.refusals); }},
};

template <typename Stats>
void AddFamilies(std::span<const SnapshotMetric<Stats>> metrics,
                 const std::function<Stats()>& snapshot,
                 std::vector<MetricFamily>& families) {
  if (!snapshot) return;
  const Stats stats = snapshot();
  for (const SnapshotMetric<Stats>& metric : metrics) {
    ClientMetric value;
    value.gauge.value = value.counter.value = metric.value(stats);
    families.push_back({metric.name, metric.help, metric.type, {value}});
  }
}

// Asks for snapshots at every scrape.
class SnapshotCollector final : public prometheus::Collectable {
 public:
  void Watch(std::function<BatchStats()> batch,
             std::function<StoreStats()> store) {
    const std::scoped_lock lock(mutex_);
    batch_ = std::move(batch);
    store_ = std::move(store);
  }
  std::vector<MetricFamily> Collect() const override {
    const std::scoped_lock lock(mutex_);
    std::vector<MetricFamily> families;
    AddFamilies<BatchStats>(kBatch, batch_, families);
    AddFamilies<StoreStats>(kStore, store_, families);
    return families;
  }

 private:
  mutable std::mutex mutex_;
  std::function<BatchStats()> batch_;
  std::function<StoreStats()> store_;
};

prometheus::Histogram& Seconds(prometheus::Registry& registry, const char* name,
                               const char* help) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add({}, prometheus::Histogram::BucketBoundaries{0.005, 0.01, 0.025, 0.05,
                                                       0.1, 0.25, 0.5, 1, 2.5,
                                                       5, 10, 30, 60, 120});
}

}  // namespace

struct Metrics::Parts {
  std::shared_ptr<SnapshotCollector> snapshot =
      std::make_shared<SnapshotCollector>();
  std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  prometheus::Histogram& first_token =
      Seconds(*registry, "headrace_time_to_first_token_seconds",
              "From the request to its first token.");
  prometheus::Histogram& latency =
      Seconds(*registry, "headrace_e2e_request_latency_seconds",
              "From the request to its end.");
  prometheus::Histogram& queue =
      Seconds(*registry, "headrace_request_queue_time_seconds",
              "Waiting for admission.");
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("headrace_requests_total")
          .Help("Requests that ended, by gRPC status code.")
          .Register(*registry);
  std::unique_ptr<prometheus::Exposer> exposer;
  std::string address;
};

Metrics::Metrics(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Metrics::~Metrics() = default;

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Create(
    const std::string& address) {
  auto parts = std::make_unique<Parts>();
  if (!address.empty()) {
    try {
      parts->exposer = std::make_unique<prometheus::Exposer>(address);
    } catch (const std::exception& error) {
      return absl::UnavailableError(absl::StrCat("cannot serve metrics on ",
                                                 address, ": ", error.what()));
    }
    const std::vector<int> ports = parts->exposer->GetListeningPorts();
    parts->address = absl::StrCat(address.substr(0, address.rfind(':')), ":",
                                  ports.empty() ? 0 : ports.front());
    parts->exposer->RegisterCollectable(parts->snapshot);
    parts->exposer->RegisterCollectable(parts->registry);
  }
  return std::unique_ptr<Metrics>(new Metrics(std::move(parts)));
}

const std::string& Metrics::address() const { return parts_->address; }

void Metrics::Watch(std::function<BatchStats()> batch,
                    std::function<StoreStats()> store) {
  parts_->snapshot->Watch(std::move(batch), std::move(store));
}

void Metrics::Count(const RequestRecord& record) {
  parts_->requests.Add({{"code", absl::StatusCodeToString(record.code)}})
      .Increment();
  parts_->latency.Observe(absl::ToDoubleSeconds(record.total));
  parts_->queue.Observe(absl::ToDoubleSeconds(record.timings.queue));
  if (record.time_to_first_token < absl::InfiniteDuration()) {
    parts_->first_token.Observe(
        absl::ToDoubleSeconds(record.time_to_first_token));
  }
}

std::string Metrics::Scrape() const {
  std::vector<MetricFamily> families = parts_->snapshot->Collect();
  for (MetricFamily& family : parts_->registry->Collect()) {
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace headrace
