#include "engine/model/decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/model/attention_writer.h"
#include "engine/model/mlp_writer.h"
#include "engine/ops/rms_norm.h"
#include "engine/tensor/block_formats.h"

namespace headrace {
namespace {

size_t Elements(int64_t rows, int64_t width) {
  return static_cast<size_t>(rows * width);
}

int64_t RotaryPairs(const ModelConfig& config) {
  if (!config.rope.has_value()) return 0;
  // Gemma 4's ladder spans the whole head, partly with frequency zero.
  return (config.rope->type == RopeType::kProportional
              ? config.head_dim
              : config.rope->rotary_dim) /
         2;
}

}  // namespace

StepBuffers::StepBuffers(const ModelConfig& config, int64_t max_rows)
    : normed(Elements(max_rows, config.hidden_size)),
      qkv(Elements(max_rows, (config.num_attention_heads +
                              2 * config.num_key_value_heads) *
                                 config.head_dim)),
      z(Elements(max_rows, config.num_attention_heads * config.head_dim)),
      gate_up(Elements(max_rows, 2 * config.intermediate_size)),
      act(Elements(max_rows, config.intermediate_size)),
      write(Elements(max_rows, config.hidden_size)),
      scale(Elements(max_rows, 1)),
      shown(Elements(max_rows, config.num_attention_heads * config.head_dim)),
      rotary(max_rows, RotaryPairs(config)) {}

Decoder::Decoder(OpsContext& ops, const DecoderDescription& description,
                 std::vector<DecoderBlock> blocks, LinearWeights lm_head,
                 int64_t max_rows)
    : ops_(ops),
      config_(description.config),
      embed_tokens_(description.embed_tokens),
      additive_position_(description.additive_position),
      blocks_(std::move(blocks)),
      final_norm_(description.final_norm),
      lm_head_(std::move(lm_head)),
      bus_(max_rows, config_.hidden_size),
      buffers_(config_, max_rows),
      attention_(ops.team().num_threads(), config_.head_dim),
      gathered_tile_(Elements(kLogitsTile, config_.hidden_size)),
      normed_tile_(Elements(kLogitsTile, config_.hidden_size)),
      scale_tile_(Elements(kLogitsTile, 1)),
      logits_tile_(Elements(kLogitsTile, config_.vocab_size)) {}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(
    OpsContext& ops, const DecoderDescription& description,
    const DecoderOptions& options,
    absl::FunctionRef<void(int64_t, int64_t)> on_layer) {
  const auto num_layers = static_cast<int64_t>(description.layers.size());
  std::vector<DecoderBlock> blocks;
  for (int64_t i = 0; i < num_layers; ++i) {
    const LayerDescription& layer = description.layers[static_cast<size_t>(i)];
    std::vector<std::unique_ptr<Writer>> writers;
    ASSIGN_OR_RETURN(writers.emplace_back(),
                     AttentionWriter::Create(
                         ops, description.config, static_cast<int32_t>(i),
                         layer.attention, options.numerics));
    ASSIGN_OR_RETURN(writers.emplace_back(),
                     MlpWriter::Create(ops, static_cast<int32_t>(i), layer.mlp,
                                       options.numerics));
    blocks.emplace_back(static_cast<int32_t>(i), std::move(writers));
    on_layer(i + 1, num_layers + 1);
  }
  ASSIGN_OR_RETURN(LinearWeights lm_head,
                   LinearWeights::Pack(ops, std::array{description.lm_head},
                                       options.numerics));
  on_layer(num_layers + 1, num_layers + 1);
  return std::unique_ptr<Decoder>(
      new Decoder(ops, description, std::move(blocks), std::move(lm_head),
                  options.max_rows));
}

int64_t Decoder::packed_bytes() const {
  int64_t bytes = lm_head_.packed_bytes();
  for (const DecoderBlock& block : blocks_) bytes += block.packed_bytes();
  return bytes;
}

void Decoder::Forward(const StepRows& rows, PagedKvStorage& kv) {
  StepContext step{.ops = ops_,
                   .kv = kv,
                   .attention = attention_,
                   .buffers = buffers_,
                   .rows = rows};
  bus_.Begin(rows.num_rows());
  Embed(step);
  if (additive_position_.writes()) WritePositions(step);
  SetRotaryRows(rows);
  for (const DecoderBlock& block : blocks_) block.Forward(step, bus_);
}

void Decoder::Embed(StepContext& step) {
  const StepRows& rows = step.rows;
  for (int64_t i = 0; i < rows.num_rows(); ++i) {
    const int32_t token = rows.tokens[static_cast<size_t>(i)];
    DequantizeRow(embed_tokens_.dtype, embed_tokens_.row(token), bus_.row(i));
  }
  step.Tap(HookPoint::kEmbed, -1, bus_.writable_rows(), config_.hidden_size);
}

void Decoder::WritePositions(StepContext& step) {
  const int64_t width = config_.hidden_size;
  float* write = buffers_.write.data();
  for (const StepSequence& sequence : step.rows.sequences) {
    for (int64_t i = 0; i < sequence.num_rows; ++i) {
      additive_position_.Write(sequence.first_position + i,
                               {write + (sequence.first_row + i) * width,
                                static_cast<size_t>(width)});
    }
  }
  step.Tap(HookPoint::kPositionWrite, -1, write, width);
  bus_.Add(write);
}

void Decoder::SetRotaryRows(const StepRows& rows) {
  for (const StepSequence& sequence : rows.sequences) {
    if (sequence.rope == nullptr) continue;
    ops_.team().ParallelFor(
        sequence.num_rows, [&](int64_t i, int /*thread_index*/) {
          buffers_.rotary.SetRow(sequence.first_row + i,
                                 sequence.first_position + i, *sequence.rope);
        });
  }
}

void Decoder::NormTile(std::span<const int32_t> step_rows) {
  const int64_t width = config_.hidden_size;
  const auto num_rows = static_cast<int64_t>(step_rows.size());
  for (int64_t i = 0; i < num_rows; ++i) {
    const std::span<const float> row =
        bus_.row(step_rows[static_cast<size_t>(i)]);
    std::copy(row.begin(), row.end(), gathered_tile_.data() + i * width);
  }
  RmsNorm(ops_.team(),
          {.src = gathered_tile_.data(),
           .num_rows = num_rows,
           .weight = final_norm_.weight,
           .eps = final_norm_.eps},
          normed_tile_.data(), scale_tile_.data());
}

void Decoder::FinalNorm(std::span<const int32_t> step_rows,
                        StepObserver& observer) {
  for (size_t i = 0; i < step_rows.size(); i += kLogitsTile) {
    const std::span<const int32_t> tile = step_rows.subspan(
        i, std::min<size_t>(kLogitsTile, step_rows.size() - i));
    NormTile(tile);
    observer.OnRows({.hook = HookPoint::kFinalNormScale,
                     .layer = -1,
                     .data = scale_tile_.data(),
                     .writable = nullptr,
                     .width = 1,
                     .stride = 1,
                     .step_rows = tile,
                     .num_rows = static_cast<int64_t>(tile.size())});
    observer.OnRows({.hook = HookPoint::kFinalNormOut,
                     .layer = -1,
                     .data = normed_tile_.data(),
                     .writable = nullptr,
                     .width = config_.hidden_size,
                     .stride = config_.hidden_size,
                     .step_rows = tile,
                     .num_rows = static_cast<int64_t>(tile.size())});
  }
}

void Decoder::Logits(std::span<const int32_t> step_rows, StepObserver* observer,
                     TakeLogits take) {
  const int64_t vocab_size = config_.vocab_size;
  for (size_t i = 0; i < step_rows.size(); i += kLogitsTile) {
    const std::span<const int32_t> tile = step_rows.subspan(
        i, std::min<size_t>(kLogitsTile, step_rows.size() - i));
    const auto num_rows = static_cast<int64_t>(tile.size());
    NormTile(tile);
    Linear(ops_, lm_head_, normed_tile_.data(), num_rows, logits_tile_.data(),
           vocab_size);
    if (observer != nullptr) {
      observer->OnRows({.hook = HookPoint::kLogits,
                        .layer = -1,
                        .data = logits_tile_.data(),
                        .writable = nullptr,
                        .width = vocab_size,
                        .stride = vocab_size,
                        .step_rows = tile,
                        .num_rows = num_rows});
    }
    take(tile, {logits_tile_.data(), Elements(num_rows, vocab_size)});
  }
}

}  // namespace headrace
