// The batch loop's figures as metrics, under vLLM's names where it has them.
#ifndef HEADRACE_SERVER_METRIC_SAMPLES_H_
#define HEADRACE_SERVER_METRIC_SAMPLES_H_

#include <vector>

#include "server/batching/batch_stats.h"
#include "server/metrics/metrics.h"

namespace headrace {

std::vector<MetricSample> ToSamples(const BatchStats& stats);

void ObserveRequest(const RequestRecord& record, Metrics& metrics);

}  // namespace headrace

#endif  // HEADRACE_SERVER_METRIC_SAMPLES_H_
