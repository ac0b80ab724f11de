// Prometheus metrics of the server, under names in the manner of vLLM's.
#ifndef HEADRACE_SERVER_METRICS_METRICS_H_
#define HEADRACE_SERVER_METRICS_METRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/batching/batch_stats.h"
#include "server/vectors/store_stats.h"

namespace headrace {

// Thread-safe.
class Metrics {
 public:
  // Serves /metrics on `address` (host:port); empty: serves nothing.
  // Errors: UNAVAILABLE when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<Metrics>> Create(
      const std::string& address);
  ~Metrics();

  // host:port of /metrics, with the port that was chosen; empty without.
  const std::string& address() const;

  // Gauges and counters are read from these at every scrape; null: there are
  // none.
  void Watch(std::function<BatchStats()> batch,
             std::function<StoreStats()> store);
  // Histograms take each request when it has ended.
  void Count(const RequestRecord& record);

  // What a scrape gives, in the text format.
  std::string Scrape() const;

 private:
  struct Parts;
  explicit Metrics(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_METRICS_METRICS_H_
