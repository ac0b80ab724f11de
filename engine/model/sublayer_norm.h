// The norm in front of a sublayer: from the bus to what its products take.
#ifndef HEADRACE_ENGINE_MODEL_SUBLAYER_NORM_H_
#define HEADRACE_ENGINE_MODEL_SUBLAYER_NORM_H_

#include <cstdint>
#include <utility>

#include "engine/model/decoder_description.h"
#include "engine/model/hook_point.h"
#include "engine/model/residual_bus.h"
#include "engine/model/step_context.h"
#include "engine/ops/int8_rows.h"
#include "engine/ops/linear.h"
#include "engine/ops/quantized_rows.h"

namespace headrace {

// Rows after a norm, until the next norm of the step.
struct NormedRows {
  int64_t num_rows = 0;
  // One of them, as the products take them.
  const float* rows = nullptr;
  const QuantizedRows* quantized = nullptr;
  const Int8Rows* int8 = nullptr;

  // As Linear().
  void Multiply(OpsContext& ops, const LinearWeights& weights,
                LinearOutput dst) const;
};

class SublayerNorm {
 public:
  SublayerNorm(int32_t layer, NormDescription norm, HookPoint scale_hook,
               HookPoint out_hook)
      : layer_(layer),
        norm_(std::move(norm)),
        scale_hook_(scale_hook),
        out_hook_(out_hook) {}

  // Norms the rows of the bus for products with `weights`, and shows them.
  NormedRows Apply(StepContext& step, const ResidualBus& bus,
                   const LinearWeights& weights) const;

 private:
  int32_t layer_;
  NormDescription norm_;
  HookPoint scale_hook_;
  HookPoint out_hook_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_SUBLAYER_NORM_H_
