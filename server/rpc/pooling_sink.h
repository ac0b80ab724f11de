// Rows of one hook, pooled to one vector as they come.
#ifndef HEADRACE_SERVER_RPC_POOLING_SINK_H_
#define HEADRACE_SERVER_RPC_POOLING_SINK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/capture/capture_plan.h"

namespace headrace {

// Filled by the batch loop, read by the reader of the request's end.
struct PooledRows {
  std::vector<double> sum;  // in order of position
  int64_t rows = 0;
};

class PoolingSink final : public CaptureSink {
 public:
  // `pooled` is shared with who reads it after the request's end.
  explicit PoolingSink(std::shared_ptr<PooledRows> pooled)
      : pooled_(std::move(pooled)) {}

  void OnRow(const CapturedRow& row) override;

 private:
  const std::shared_ptr<PooledRows> pooled_;
};

// The mean row, in float64 until the end, divided by its L2 norm if asked for
// (a zero row stays zero); rounded once.
std::vector<float> MeanRow(const PooledRows& pooled, bool normalize);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_POOLING_SINK_H_
