// The engine on one machine: one decoder, one KV cache, the open sequences.
#ifndef HEADRACE_ENGINE_ENGINE_IMPL_H_
#define HEADRACE_ENGINE_ENGINE_IMPL_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/capture/step_recorder.h"
#include "engine/engine.h"
#include "engine/kv_cache/kv_cache.h"
#include "engine/kv_cache/paged_kv_storage.h"
#include "engine/loaded_model.h"
#include "engine/model/decoder.h"
#include "engine/ops/ops_context.h"
#include "engine/sampling/candidates.h"
#include "engine/sequence.h"

namespace headrace {

class EngineImpl final : public Engine {
 public:
  struct Parts {
    LoadedModel model;
    std::unique_ptr<OpsContext> ops;
    std::unique_ptr<Decoder> decoder;
    PagedKvStorage kv_storage;
    KvCache kv_cache;
    EngineOptions options;
  };
  explicit EngineImpl(Parts parts);

  const ModelInfo& model() const override { return parts_.model.info; }
  const std::vector<HookPointState>& hooks() const override { return hooks_; }
  const Tokenizer* tokenizer() const override {
    return parts_.model.tokenizer.get();
  }
  const ChatTemplate* chat_template() const override {
    return parts_.model.chat_template.get();
  }
  void ReleaseFilePages() const override {
    parts_.model.source->ReleasePages();
  }

  absl::StatusOr<OpenedSequence> OpenSequence(SequenceId id,
                                              SequenceOptions options) override;
  void FinishSequence(SequenceId id) override;
  void CloseSequence(SequenceId id) override;
  void SuspendSequence(SequenceId id) override;
  absl::StatusOr<OpenedSequence> ResumeSequence(SequenceId id) override;
  absl::StatusOr<StepResult> Step(const Batch& batch) override;
  SequenceReport report(SequenceId id) const override;
  KvCacheStats kv_cache() const override;

 private:
  struct OpenEntry {
    Sequence sequence;
    KvSequence kv;
    bool suspended = false;  // `kv` is closed
  };
  // One step, laid out.
  struct StepPlan;

  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  absl::Status CheckDrafts(const SequenceSlice& slice,
                           const Sequence& sequence) const;
  absl::Status CheckOptions(const SequenceOptions& options) const;
  absl::Status CheckInterventions(
      std::span<const Intervention> interventions) const;
  // Blocks for a sequence that has `tokens` so far, of whose rows the cache may
  // give `max_cached_rows`.
  absl::StatusOr<KvSequence> ReserveBlocks(const SequenceOptions& options,
                                           std::span<const int32_t> tokens,
                                           int64_t max_cached_rows);
  void MakeDerived(Sequence& sequence) const;
  absl::StatusOr<StepPlan> PlanStep(const Batch& batch);
  void AddSlice(const SequenceSlice& slice, OpenEntry& entry, StepPlan& plan);
  // Logits of the rows that are sampled, scored or captured.
  void ComputeLogits(StepPlan& plan);
  struct LogitsRow;
  static void UseLogits(const LogitsRow& row, std::span<const float> logits,
                        Candidates& scratch, SequenceResult& result);

  Parts parts_;
  std::vector<HookPointState> hooks_;
  std::vector<Candidates> candidates_;  // sampling scratch, one per thread
  absl::flat_hash_map<SequenceId, std::unique_ptr<OpenEntry>> open_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ENGINE_IMPL_H_
