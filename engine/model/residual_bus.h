// The residual stream: a bus that every sublayer reads and adds to. No sublayer
// overwrites it, so it is the place to look inside a model, and to intervene.
#ifndef HEADRACE_ENGINE_MODEL_RESIDUAL_BUS_H_
#define HEADRACE_ENGINE_MODEL_RESIDUAL_BUS_H_

#include <cstdint>
#include <span>

#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/ops/linear.h"

namespace headrace {

// Float32 [num_rows, hidden_size]. Owned by the batch loop.
class ResidualBus {
 public:
  ResidualBus(int64_t max_rows, int64_t hidden_size)
      : hidden_size_(hidden_size),
        rows_(static_cast<size_t>(max_rows * hidden_size)) {}

  // Starts a pass of `num_rows` rows. The embedding is then written to row().
  void Begin(int64_t num_rows) { num_rows_ = num_rows; }
  std::span<float> row(int64_t i) {
    return {rows_.data() + i * hidden_size_, static_cast<size_t>(hidden_size_)};
  }

  int64_t num_rows() const { return num_rows_; }
  int64_t hidden_size() const { return hidden_size_; }
  // [num_rows, hidden_size]
  const float* rows() const { return rows_.data(); }
  // Goes on with some of the rows alone, as rows 0, 1, …: `kept` ascends.
  void Keep(std::span<const int32_t> kept);
  // Ends Keep(): those rows are where they were, the others are undefined.
  void Restore(std::span<const int32_t> kept);
  // For interventions on the bus itself.
  float* writable_rows() { return rows_.data(); }

  // rows += write, one rounding per element and nothing fused into it, so that
  // before + write == after holds exactly in float32.
  void Add(ThreadTeam& team, const float* write);
  // The same for products that are added as they come about.
  LinearOutput Adder() {
    return {.rows = rows_.data(), .stride = hidden_size_, .add = true};
  }

 private:
  int64_t hidden_size_;
  int64_t num_rows_ = 0;
  AlignedBuffer<float> rows_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_RESIDUAL_BUS_H_
