// Loading: from options to a warm engine.
#include "engine/engine.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "engine/base/cache_folder.h"
#include "engine/base/resource_limits.h"
#include "engine/base/status_macros.h"
#include "engine/base/worker_placement.h"
#include "engine/engine_impl.h"
#include "engine/loaded_model.h"
#include "engine/memory_plan.h"
#include "engine/packed_cache.h"

namespace headrace {
namespace {

// Code, libraries and what gRPC keeps for its connections.
constexpr int64_t kBaseBytes = int64_t{192} << 20;
// Shares of a load, for its progress.
constexpr double kReadShare = 0.1;
constexpr double kPackShare = 0.85;

absl::Status CheckOptions(const EngineOptions& options) {
  if (options.num_threads < 0 || options.num_threads > 1024) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threads is ", options.num_threads, ", outside [0, 1024]"));
  }
  if (options.kv_cache_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kv_cache_bytes is ", options.kv_cache_bytes, ", below 0"));
  }
  if (options.kv_block_size < 16 || options.kv_block_size % 16 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kv_block_size is ", options.kv_block_size, ", not a multiple of 16"));
  }
  if (options.max_batch_rows < 1 || options.max_batch_rows > 8192) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_batch_rows is ", options.max_batch_rows, ", outside [1, 8192]"));
  }
  return absl::OkStatus();
}

// Buffers of a step: its rows through the widest part of a block, and a tile
// of logits.
int64_t WorkingBytes(const ModelConfig& config, int64_t max_rows) {
  const int64_t floats_per_row =
      3 * config.hidden_size + 3 * config.intermediate_size +
      (3 * config.num_attention_heads + 2 * config.num_key_value_heads) *
          config.head_dim;
  constexpr int64_t kLogitsRows = 32;
  return kBaseBytes +
         4 * (max_rows * floats_per_row + kLogitsRows * config.vocab_size);
}

// A first pass touches every weight and buffer, so that the first request is
// as fast as the next.
absl::Status WarmUp(Engine& engine) {
  constexpr SequenceId kWarmUp{~uint64_t{0}};
  SequenceOptions options;
  options.prompt = {0, 0};
  options.max_rows = 2;
  options.rope = engine.model().rope;
  ASSIGN_OR_RETURN(const OpenedSequence opened,
                   engine.OpenSequence(kWarmUp, std::move(options)));
  const absl::StatusOr<StepResult> result =
      engine.Step({.slices = {{.sequence = kWarmUp,
                               .num_rows = 2 - opened.cached_rows,
                               .sample = false}}});
  engine.CloseSequence(kWarmUp);
  return result.status();
}

class Progress {
 public:
  explicit Progress(const EngineOptions& options) : options_(options) {}
  void Report(std::string_view stage, double fraction) const {
    if (options_.on_progress) {
      options_.on_progress({.stage = stage, .fraction = fraction});
    }
  }

 private:
  const EngineOptions& options_;
};

// Of the file, only the embedding is read after packing.
absl::StatusOr<int64_t> KvBlocks(const EngineOptions& options,
                                 const ResourceLimits& limits,
                                 const LoadedModel& model, const KvShape& shape,
                                 int64_t packed_bytes) {
  const ModelInfo& info = model.info;
  return PlanKvBlocks(
      {.limit_bytes = limits.memory_bytes,
       .weight_bytes =
           packed_bytes + model.description.embed_tokens.dim(0) *
                              model.description.embed_tokens.row_bytes(),
       .working_bytes = WorkingBytes(info.config, options.max_batch_rows),
       .kv_block_bytes = PagedKvStorage::BytesPerBlock(shape),
       .kv_block_size = shape.block_size,
       .context_length = info.context_length,
       .requested_kv_cache_bytes = options.kv_cache_bytes});
}

// Packs the model's weights, or takes them from options.packed_cache_dir.
absl::StatusOr<std::unique_ptr<Decoder>> PackDecoder(
    const EngineOptions& options, const LoadedModel& model, OpsContext& ops,
    const Progress& progress) {
  const PackedCache cache{CacheFolder(options.packed_cache_dir)};
  const PackedImageKey key = {.weights_sha256 = model.info.weights_sha256,
                              .isa = ops.isa()};
  const bool keeps = !options.packed_cache_dir.empty();
  if (keeps) ops.packed_memory().Adopt(cache.Load(ops.team(), key));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Decoder> decoder,
      Decoder::Create(
          ops, model.description,
          {.numerics = options.numerics,
           .max_rows = options.max_batch_rows,
           .release_pages = [&source =
                                 *model.source] { source.ReleasePages(); }},
          [&](int64_t done, int64_t of) {
            progress.Report(
                "packing", kReadShare + kPackShare * static_cast<double>(done) /
                                            static_cast<double>(of));
          }));
  const PackedMemory::Taken taken = ops.packed_memory().Finish();
  if (keeps && taken.packed) cache.Save(ops.team(), key, taken.runs);
  return decoder;
}

}  // namespace

int64_t Engine::BlocksFor(int64_t max_rows) const {
  const int64_t block_size = kv_cache().block_size;
  return (max_rows + block_size - 1) / block_size;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const Progress progress(options);
  progress.Report("reading", 0);
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options));
  progress.Report("packing", kReadShare);

  const ResourceLimits limits = ReadResourceLimits();
  const int threads = limits.ThreadsFor(options.num_threads);
  ASSIGN_OR_RETURN(
      std::unique_ptr<OpsContext> ops,
      OpsContext::Create(threads, PlaceWorkers(threads, limits.has_cpu_quota)));
  const ModelConfig& config = model.info.config;
  const KvShape shape = {.num_layers = config.num_hidden_layers,
                         .num_key_value_heads = config.num_key_value_heads,
                         .head_dim = config.head_dim,
                         .block_size = options.kv_block_size,
                         .dtype = model.info.kv_cache_dtype};
  // Refuse early, before minutes of packing: packed weights are about as large
  // as the stored ones.
  RETURN_IF_ERROR(
      KvBlocks(options, limits, model, shape, model.info.weight_bytes)
          .status());
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                   PackDecoder(options, model, *ops, progress));
  ASSIGN_OR_RETURN(const int64_t blocks, KvBlocks(options, limits, model, shape,
                                                  decoder->packed_bytes()));
  ASSIGN_OR_RETURN(PagedKvStorage storage,
                   PagedKvStorage::Create(shape, blocks));
  model.info.num_threads = threads;
  model.info.isa = ops->isa();
  for (const std::string& warning : model.info.warnings) {
    LOG(WARNING) << options.model_path << ": " << warning;
  }
  auto engine = std::make_unique<EngineImpl>(
      EngineImpl::Parts{.model = std::move(model),
                        .ops = std::move(ops),
                        .decoder = std::move(decoder),
                        .kv_storage = std::move(storage),
                        .kv_cache = KvCache(blocks, options.kv_block_size),
                        .options = options});
  progress.Report("warming up", kReadShare + kPackShare);
  RETURN_IF_ERROR(WarmUp(*engine));
  // What loading alone needed: by itself, glibc would keep it for later.
  malloc_trim(0);
  progress.Report("ready", 1);
  return engine;
}

}  // namespace headrace
