// The decoder: embed, blocks that add to the residual bus, final norm,
// unembedding. One pass serves prefill and decode alike.
#ifndef HEADRACE_ENGINE_MODEL_DECODER_H_
#define HEADRACE_ENGINE_MODEL_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/kv_cache/paged_kv_storage.h"
#include "engine/model/decoder_block.h"
#include "engine/model/decoder_description.h"
#include "engine/model/residual_bus.h"
#include "engine/model/step_context.h"
#include "engine/model/token_embedding.h"
#include "engine/model/unembedding.h"
#include "engine/ops/linear.h"
#include "engine/ops/ops_context.h"
#include "engine/tensor/numerics.h"

namespace headrace {

struct DecoderOptions {
  Numerics numerics = Numerics::kFast;
  int64_t max_rows = 0;  // of one pass
  // Gives pages of the model's file that were read back to the system; called
  // after all that reads there, so that few of them are resident.
  std::function<void()> release_pages;
};

// Owned by the batch loop.
class Decoder final : public Unembedding {
 public:
  // Packs every weight; `description`'s tensors stay alive as long as this
  // (the embedding is read in place). `on_layer(done, of)` reports progress.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(
      OpsContext& ops, const DecoderDescription& description,
      const DecoderOptions& options,
      absl::FunctionRef<void(int64_t, int64_t)> on_layer);

  // Runs the rows through the blocks, appending to the KV cache. 1 <=
  // num_rows <= max_rows. Afterwards rows.outputs may be read, and all rows if
  // there is an observer.
  void Forward(const StepRows& rows, PagedKvStorage& kv);

  // Final norm and unembedding of some rows of the last Forward, in tiles:
  // take(rows of the step, logits [rows.size(), vocab_size]). Rows ascend.
  using TakeStepLogits =
      absl::FunctionRef<void(std::span<const int32_t>, std::span<const float>)>;
  void Logits(std::span<const int32_t> step_rows, StepObserver* observer,
              TakeStepLogits take);
  // Final norm alone, of some rows of the last Forward, shown to the observer.
  // Rows ascend.
  void FinalNorm(std::span<const int32_t> step_rows, StepObserver& observer);

  // Must not be called while FinalNorm or Logits shows its rows.
  void Unembed(std::span<const std::span<const float>> rows,
               std::span<const std::span<const float>> statistics,
               TakeLogits take) override;
  std::vector<float> TokenDirection(int32_t token) const override;
  std::vector<float> HeadDirection(
      int32_t layer, std::span<const float> direction) const override;

  // Pairs of a head that rotate; 0 without RoPE.
  int64_t num_rotary_pairs() const { return buffers_.rotary.num_pairs(); }
  // Memory that the packed weights take.
  int64_t packed_bytes() const;

 private:
  Decoder(OpsContext& ops, const DecoderDescription& description,
          std::vector<DecoderBlock> blocks, LinearWeights lm_head,
          const DecoderOptions& options);
  void Embed(StepContext& step);
  void WritePositions(StepContext& step);
  void SetRotaryRows(const StepRows& rows);
  // The last block, for the rows that are read afterwards.
  void ForwardOutputs(StepContext& step);
  // Norms at most kLogitsTile rows into normed_tile_ and scale_tile_, with the
  // statistics of as many others.
  void NormTile(std::span<const std::span<const float>> rows,
                std::span<const std::span<const float>> statistics);
  // Rows of the bus.
  std::vector<std::span<const float>> BusRows(
      std::span<const int32_t> step_rows);

  // Rows whose logits are computed at once: bounds the memory.
  static constexpr size_t kLogitsTile = 32;

  OpsContext& ops_;
  ModelConfig config_;
  std::function<void()> release_pages_;
  TokenEmbedding embed_tokens_;
  TensorView lm_head_view_;          // as stored
  std::vector<TensorView> o_projs_;  // by layer, as stored
  AdditivePosition additive_position_;
  std::vector<DecoderBlock> blocks_;
  NormDescription final_norm_;
  LinearWeights lm_head_;
  ResidualBus bus_;
  StepBuffers buffers_;
  AttentionScratch attention_;
  AlignedBuffer<float> gathered_tile_;    // [kLogitsTile, hidden_size]
  AlignedBuffer<float> statistics_tile_;  // [kLogitsTile, hidden_size]
  AlignedBuffer<float> normed_tile_;      // [kLogitsTile, hidden_size]
  AlignedBuffer<float> scale_tile_;       // [kLogitsTile]
  AlignedBuffer<float> logits_tile_;      // [kLogitsTile, vocab_size]
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_DECODER_H_
