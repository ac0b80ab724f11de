// The public door of the engine: load a model, open sequences, step batches.
// Knows no gRPC and no protobuf.
#ifndef HEADRACE_ENGINE_ENGINE_H_
#define HEADRACE_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/batch.h"
#include "engine/capture/capture_plan.h"
#include "engine/model/hook_point.h"
#include "engine/model/model_config.h"
#include "engine/rope/extension.h"
#include "engine/tensor/kv_cache_dtype.h"
#include "engine/tensor/numerics.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace headrace {

struct LoadProgress {
  std::string_view stage;  // "reading", "packing", "warming up"
  double fraction = 0;     // of the whole load, in [0, 1]
};

struct EngineOptions {
  std::string model_path;  // a file, or a folder with config.json
  Numerics numerics = Numerics::kFast;
  // What keys and values are kept as; unset: kF32 with exact numerics, kInt16
  // with fast ones where the heads allow it (KvLayout::kMaxIntegerHeadDim).
  std::optional<KvCacheDtype> kv_cache_dtype;
  int num_threads = 0;           // 0: what cgroup and affinity allow
  int64_t kv_cache_bytes = 0;    // 0: from the memory limit, after the weights
  int64_t kv_block_size = 16;    // rows per block
  int64_t max_batch_rows = 512;  // rows of one step at the most
  // What sequences get that do not ask otherwise; rope.max_context is the
  // context length to serve (0: what the method serves).
  RopeRequest rope;
  bool prefix_cache = true;
  // A folder for packed weights, so that they are packed once and not at every
  // load. Empty: none.
  std::string packed_cache_dir;
  std::function<void(const LoadProgress&)> on_progress;  // may be null
};

// What a loaded model is; immutable.
struct ModelInfo {
  ModelConfig config;
  Numerics numerics = Numerics::kFast;
  KvCacheDtype kv_cache_dtype = KvCacheDtype::kF32;
  // "GGUF v3", "safetensors", "safetensors GPTQ" (or AWQ), "llama2.c"
  std::string weight_format;
  std::string weight_dtype;    // the commonest, as in "Q4_1"
  std::string weights_sha256;  // hex, of the tensors' bytes in order of name
  int64_t weight_bytes = 0;    // as stored
  int64_t parameter_count = 0;
  // For sequences that do not ask otherwise; nullopt without RoPE.
  std::optional<EffectiveRope> rope;
  RopeRequest rope_request;    // EngineOptions::rope
  int64_t context_length = 0;  // of such sequences, in tokens
  int num_threads = 0;
  std::string isa;  // the instruction set that was chosen, as in "AVX3_ZEN4"
  std::vector<int32_t> end_token_ids;  // all that the files declare
  std::vector<std::string> warnings;   // found while loading
};

// The rotary encoding of a sequence that asks for `request`: an unset kind,
// theta or max_context is taken from model.rope_request. See
// ResolveExtension() for needed_positions and the violations. A model without
// RoPE resolves to nullopt; its sequences may use model.context_length.
RopeResolution ResolveRequestRope(const ModelInfo& model,
                                  const RopeRequest& request,
                                  int64_t needed_positions);

struct HookPointState {
  HookPoint hook;
  int64_t width = 0;  // values per row
  bool capturable = false;
  bool writable = false;  // interventions may change rows
  std::string refusal;    // why not, when it is not capturable or writable
  // Heads that have a row each, with a value for each key: `width` is 0 then.
  int64_t num_heads = 0;
};

struct KvCacheStats {
  int64_t block_size = 0;
  int64_t total_blocks = 0;
  int64_t used_blocks = 0;     // reserved by open sequences
  int64_t cached_blocks = 0;   // hold a reusable prefix, free to be evicted
  int64_t prefix_queries = 0;  // prompt rows looked up
  int64_t prefix_hits = 0;     // prompt rows found
};

// model(), hooks(), tokenizer(), chat_template() and ReleaseFilePages() are
// thread-safe. All else is owned by the batch loop: one thread at a time.
class Engine {
 public:
  // Loads, packs and warms up. Errors: NOT_FOUND (no such file), DATA_LOSS
  // (malformed weights, naming tensor and offset), INVALID_ARGUMENT (options),
  // RESOURCE_EXHAUSTED (does not fit, with the numbers).
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const ModelInfo& model() const = 0;
  virtual const std::vector<HookPointState>& hooks() const = 0;
  // Null for a model without one: it serves token ids.
  virtual const Tokenizer* tokenizer() const = 0;
  // Null when the files carry none.
  virtual const ChatTemplate* chat_template() const = 0;

  // Gives pages of the model's file that were read back to the system: rows of
  // the embedding that come again are read again.
  virtual void ReleaseFilePages() const = 0;

  // Blocks that a sequence of `max_rows` rows reserves.
  int64_t BlocksFor(int64_t max_rows) const;

  // Reserves KV blocks for max_rows. Errors: RESOURCE_EXHAUSTED when they are
  // not free; INVALID_ARGUMENT for what does not fit the model.
  virtual absl::StatusOr<OpenedSequence> OpenSequence(
      SequenceId id, SequenceOptions options) = 0;
  // Gives every block back; whole prompt blocks stay reusable.
  virtual void CloseSequence(SequenceId id) = 0;

  // Gives every block of an open sequence back and keeps everything else: its
  // tokens, its sampler, what was captured. Until it is resumed it may only be
  // closed.
  virtual void SuspendSequence(SequenceId id) = 0;
  // Reserves the blocks again. Rows from `cached_rows` on, of prompt and
  // generated tokens alike, are to be stepped again: those that were computed
  // before give the same keys and values, and hand nothing over a second time.
  // Errors: RESOURCE_EXHAUSTED when the blocks are not free.
  virtual absl::StatusOr<OpenedSequence> ResumeSequence(SequenceId id) = 0;

  // Computes one step. An error means that the batch broke a rule of this
  // interface (a bug); trouble of one sequence is in its SequenceResult.
  virtual absl::StatusOr<StepResult> Step(const Batch& batch) = 0;

  // Shows the sink what derived quantities say of all rows together: before
  // CloseSequence(), of a sequence that went well.
  virtual void FinishSequence(SequenceId id) = 0;
  // So far, of an open sequence.
  virtual SequenceReport report(SequenceId id) const = 0;
  virtual KvCacheStats kv_cache() const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ENGINE_H_
