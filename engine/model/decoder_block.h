// One block of the decoder: its writers, in order, each adding to the bus.
#ifndef HEADRACE_ENGINE_MODEL_DECODER_BLOCK_H_
#define HEADRACE_ENGINE_MODEL_DECODER_BLOCK_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/residual_bus.h"
#include "engine/model/step_context.h"
#include "engine/model/writer.h"

namespace headrace {

class DecoderBlock {
 public:
  DecoderBlock(int32_t layer, std::vector<std::unique_ptr<Writer>> writers)
      : layer_(layer), writers_(std::move(writers)) {}

  // Memory that the packed weights take.
  int64_t packed_bytes() const;

  void Forward(StepContext& step, ResidualBus& bus) const;
  // All that later rows need of a block whose own result nobody reads.
  void StoreKv(StepContext& step, const ResidualBus& bus) const;

 private:
  int32_t layer_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_DECODER_BLOCK_H_
