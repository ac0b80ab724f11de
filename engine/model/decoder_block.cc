#include "engine/model/decoder_block.h"

namespace headrace {

int64_t DecoderBlock::packed_bytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<Writer>& writer : writers_) {
    bytes += writer->packed_bytes();
  }
  return bytes;
}

void DecoderBlock::Forward(StepContext& step, ResidualBus& bus) const {
  const int64_t width = bus.hidden_size();
  step.Tap(HookPoint::kResidPre, layer_, bus.writable_rows(), width);
  for (const std::unique_ptr<Writer>& writer : writers_) {
    if (step.Wanted(writer->write_hook(), layer_)) {
      float* write = step.buffers.write.data();
      writer->Compute(step, bus, {.rows = write, .stride = width});
      step.Tap(writer->write_hook(), layer_, write, width);
      bus.Add(step.ops.team(), write);
    } else {
      writer->Compute(step, bus, bus.Adder());
    }
    step.Tap(writer->after_hook(), layer_, bus.writable_rows(), width);
  }
}

void DecoderBlock::StoreKv(StepContext& step, const ResidualBus& bus) const {
  for (const std::unique_ptr<Writer>& writer : writers_) {
    writer->StoreKv(step, bus);
  }
}

}  // namespace headrace
