// Grouped-query attention as a writer: o(attend(rotate(q), rotate(k), v)).
#ifndef HEADRACE_ENGINE_MODEL_ATTENTION_WRITER_H_
#define HEADRACE_ENGINE_MODEL_ATTENTION_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/model/decoder_description.h"
#include "engine/model/sublayer_norm.h"
#include "engine/model/writer.h"
#include "engine/ops/attention.h"
#include "engine/ops/linear.h"
#include "engine/tensor/numerics.h"

namespace headrace {

class AttentionWriter final : public Writer {
 public:
  // Packs the weights.
  static absl::StatusOr<std::unique_ptr<AttentionWriter>> Create(
      OpsContext& ops, const ModelConfig& config, int32_t layer,
      const AttentionDescription& description, Numerics numerics);

  int64_t packed_bytes() const override {
    return qkv_proj_.packed_bytes() + o_proj_.packed_bytes();
  }
  HookPoint write_hook() const override { return HookPoint::kAttnOut; }
  HookPoint after_hook() const override { return HookPoint::kResidMid; }
  void StoreKv(StepContext& step, const ResidualBus& bus) const override;
  void Compute(StepContext& step, const ResidualBus& bus,
               LinearOutput write) const override;

 private:
  AttentionWriter(const ModelConfig& config, int32_t layer,
                  const AttentionDescription& description,
                  LinearWeights qkv_proj, LinearWeights o_proj);
  // Shows queries or keys, `data` of [num_rows, qkv_width], in Hugging Face's
  // order of channels, and takes changes back.
  void TapHeads(StepContext& step, HookPoint hook, float* data,
                int64_t num_heads) const;
  // Turns queries and keys of [num_rows, qkv_width] by their positions.
  void Rotate(StepContext& step, float* qkv) const;
  // Adds keys and values of the step to the cache.
  void StoreRows(StepContext& step, const float* qkv) const;
  // What the step's attention reads; `sequences` are the step's.
  AttentionInputs Inputs(StepContext& step, const float* qkv,
                         std::span<const AttentionSequence> sequences) const;

  int64_t q_width() const {
    return config_.num_attention_heads * config_.head_dim;
  }
  int64_t kv_width() const {
    return config_.num_key_value_heads * config_.head_dim;
  }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  ModelConfig config_;
  int32_t layer_;
  SublayerNorm norm_;
  HeadPosition position_;
  LinearWeights qkv_proj_;
  LinearWeights o_proj_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_ATTENTION_WRITER_H_
