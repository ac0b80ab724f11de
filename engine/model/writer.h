// A sublayer: it reads the bus through its own norm and computes what is added
// to it.
#ifndef HEADRACE_ENGINE_MODEL_WRITER_H_
#define HEADRACE_ENGINE_MODEL_WRITER_H_

#include <cstdint>

#include "engine/model/hook_point.h"
#include "engine/model/residual_bus.h"
#include "engine/model/step_context.h"
#include "engine/ops/linear.h"

namespace headrace {

// Immutable once packed; owned by the batch loop.
class Writer {
 public:
  virtual ~Writer() = default;

  // Memory that the packed weights take.
  virtual int64_t packed_bytes() const = 0;

  // The hook of what is written, and of the bus after it.
  virtual HookPoint write_hook() const = 0;
  virtual HookPoint after_hook() const = 0;

  // The first part of Compute(): stores what later rows read of these rows.
  virtual void StoreKv(StepContext& step, const ResidualBus& bus) const = 0;

  // What this sublayer adds to the bus, [num_rows, hidden_size], which may go
  // right there: the bus has been read when the last product begins.
  virtual void Compute(StepContext& step, const ResidualBus& bus,
                       LinearOutput write) const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_WRITER_H_
