// The gated MLP as a writer: down(act(gate x) * up x).
#ifndef HEADRACE_ENGINE_MODEL_MLP_WRITER_H_
#define HEADRACE_ENGINE_MODEL_MLP_WRITER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/decoder_description.h"
#include "engine/model/sublayer_norm.h"
#include "engine/model/writer.h"
#include "engine/ops/linear.h"
#include "engine/tensor/numerics.h"

namespace headrace {

class MlpWriter final : public Writer {
 public:
  // Packs the weights.
  static absl::StatusOr<std::unique_ptr<MlpWriter>> Create(
      OpsContext& ops, int32_t layer, const MlpDescription& description,
      Numerics numerics);

  int64_t packed_bytes() const override {
    return gate_up_proj_.packed_bytes() + down_proj_.packed_bytes();
  }
  HookPoint write_hook() const override { return HookPoint::kMlpOut; }
  HookPoint after_hook() const override { return HookPoint::kResidPost; }
  void StoreKv(StepContext& /*step*/,
               const ResidualBus& /*bus*/) const override {}
  void Compute(StepContext& step, const ResidualBus& bus,
               LinearOutput write) const override;

 private:
  MlpWriter(int32_t layer, const MlpDescription& description,
            LinearWeights gate_up_proj, LinearWeights down_proj);

  int32_t layer_;
  int64_t intermediate_size_;
  SublayerNorm norm_;
  Activation activation_;
  LinearWeights gate_up_proj_;
  LinearWeights down_proj_;
  bool can_fuse_;  // into GatedLinear()
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_MLP_WRITER_H_
